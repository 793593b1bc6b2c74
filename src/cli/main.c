/* main: trireme VERB ...  Finds the verb, runs it, prints its fault, turns it into an exit code. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <trireme/launch.h>

#include "cli.h"

const cli_verb *const cli_verbs[] = {&cli_train,
                                     &cli_check,
                                     &cli_eval,
                                     &cli_predict,
                                     &cli_export,
                                     &cli_info,
                                     &cli_balance,
                                     &cli_data_info,
                                     &cli_data_check,
                                     &cli_data_order,
                                     &cli_data_stats,
                                     &cli_data_split,
                                     &cli_data_shuffle,
                                     &cli_data_repack,
                                     &cli_data_dump,
                                     &cli_data_synth,
                                     &cli_data_import_mnist,
                                     &cli_data_import_cifar,
                                     &cli_data_import_csv,
                                     &cli_data_import_npy,
                                     &cli_data_import_npz,
                                     &cli_data_import_images,
                                     &cli_data_import_text,
                                     &cli_data_guard,
                                     &cli_help,
                                     NULL};

/* How many of the words a verb's name takes; 0 where they are not its name. */
static int words_of(const char *name, int argc, char **argv) {
    int words = 0;
    while (*name) {
        size_t n = strcspn(name, " ");
        if (words >= argc || strlen(argv[words]) != n || strncmp(argv[words], name, n) != 0) return 0;
        words++;
        name += n + (name[n] == ' ');
    }
    return words;
}

const cli_verb *cli_verb_find(int argc, char **argv, int *words) {
    for (int i = 0; cli_verbs[i]; i++)
        if ((*words = words_of(cli_verbs[i]->name, argc, argv)) > 0) return cli_verbs[i];
    return NULL;
}

/* "data" of "data import mnist": the first words that all of `argv` agree with. */
static int common_words(const char *name, int argc, char **argv) {
    int words = 0;
    while (*name && words < argc) {
        size_t n = strcspn(name, " ");
        if (strlen(argv[words]) != n || strncmp(argv[words], name, n) != 0) break;
        words++;
        name += n + (name[n] == ' ');
    }
    return words;
}

static const char *word_at(const char *name, int k) {
    for (; k > 0 && *name; k--) name += strcspn(name, " "), name += *name == ' ';
    return name;
}

/* The words that could stand at place `known`, each once. */
static void next_words(int known, int argc, char **argv, char word[][24], const char **list) {
    int n = 0;
    for (int i = 0; cli_verbs[i]; i++) {
        if (cli_verbs[i]->hidden || common_words(cli_verbs[i]->name, argc, argv) < known) continue;
        const char *w = word_at(cli_verbs[i]->name, known);
        int len = (int)strcspn(w, " ");
        snprintf(word[n], sizeof word[n], "%.*s", len, w);
        if (*w && (n == 0 || strcmp(word[n - 1], word[n]) != 0)) list[n] = word[n], n++;
    }
    list[n] = NULL;
}

trm_status cli_unknown_verb(int argc, char **argv) {
    char word[64][24];
    const char *list[64];
    trm_str before = {0}, all = {0};
    int known = 0;
    for (int i = 0; cli_verbs[i]; i++) {
        int n = common_words(cli_verbs[i]->name, argc, argv);
        if (n > known) known = n;
    }
    for (int i = 0; i < known; i++) trm_str_add(&before, "%s ", argv[i]);
    next_words(known, argc, argv, word, list);
    for (int i = 0; list[i]; i++) trm_str_add(&all, "%s%s", i ? ", " : "", list[i]);
    const char *near = known < argc ? trm_nearest(argv[known], list) : NULL;
    if (known < argc)
        trm_fail(TRM_USAGE, "unknown verb '%s%.40s'", trm_str_get(&before), argv[known]);
    else
        trm_fail(TRM_USAGE, "'trireme %s' needs one more word: %s", argv[known - 1], trm_str_get(&all));
    if (near)
        trm_hint("did you mean 'trireme %s%s'?", trm_str_get(&before), near);
    else if (known < argc)
        trm_hint("verbs are %s", trm_str_get(&all));
    trm_str_free(&before);
    trm_str_free(&all);
    return TRM_USAGE;
}

static trm_status run(int argc, char **argv) {
    int words = 0;
    if (argc == 0) {
        trm_fail(TRM_USAGE, "say what to do: trireme VERB ...");
        trm_hint("trireme help lists the verbs");
        return TRM_USAGE;
    }
    if (strcmp(argv[0], "--version") == 0) {
        ui_print("trireme " TRM_VERSION "\n");
        return TRM_OK;
    }
    if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0) return cli_verb_run(&cli_help, 0, NULL);
    /* `trireme data --help`: the verbs that begin so. */
    trm_str group = {0};
    const char *last = argv[argc - 1];
    if ((strcmp(last, "--help") == 0 || strcmp(last, "-h") == 0) && cli_group_help(argc - 1, argv, &group)) {
        ui_print(trm_str_get(&group));
        trm_str_free(&group);
        return TRM_OK;
    }
    const cli_verb *v = cli_verb_find(argc, argv, &words);
    if (!v) return cli_unknown_verb(argc, argv);
    /* Under a launcher a verb for one process runs once. */
    if (!v->ranks && trm_launch_rank() != 0) return TRM_OK;
    return cli_verb_run(v, argc - words, argv + words);
}

/* Threads that wait for each other spin for milliseconds by libgomp's default.  Where another job has the core of one of
 * them, all others spin until the system takes it away: runs get slower tenfold and more.  libgomp reads its setting
 * before main, so the program starts itself once more with a short one; what the user has set stays. */
static void spin_briefly(char **argv) {
    if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY")) return;
    setenv("GOMP_SPINCOUNT", "10000", 1);
    execv("/proc/self/exe", argv);
    /* Not possible here: the default it is. */
}

int main(int argc, char **argv) {
    spin_briefly(argv);
    signal(SIGPIPE, SIG_IGN);
    trm_status status = run(argc - 1, argv + 1);
    /* Faults that reach this place are the same on all ranks, and rank 0 says them.  A launcher ends the others as soon as
     * one leaves with a code that is not 0: they give rank 0 the time to speak. */
    if (status != TRM_OK && trm_launch_rank() == 0)
        ui_fault(status);
    else if (status != TRM_OK)
        trm_sleep(0.5);
    return cli_leave(ui_end(trm_status_exit_code(status)));
}
