/* note: what the notes of one step say together. */
#include <trireme/wire.h>

trm_note_sum trm_note_fold(const trm_note *notes, int n) {
    trm_note_sum sum = {.update = n > 0 ? notes[0].update : 0, .same_update = true, .worst_rank = -1};
    for (int i = 0; i < n; i++) {
        sum.orders |= notes[i].orders;
        if (notes[i].update != sum.update) sum.same_update = false;
        if (notes[i].status > sum.worst) {
            sum.worst = notes[i].status;
            sum.worst_rank = i;
        }
    }
    return sum;
}
