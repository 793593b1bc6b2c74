/* man: the manual page, out of the tables of the verbs, so that it cannot say anything else than they do. */
#include <string.h>

#include "cli.h"

/* Text for troff: what it would take for a command of its own is protected. */
static void add_text(const char *text, trm_str *out) {
    bool line_start = true;
    for (const char *c = text; *c; c++) {
        if (line_start && (*c == '.' || *c == '\'')) trm_str_add(out, "\\&");
        if (*c == '\\')
            trm_str_add(out, "\\e");
        else if (*c == '-')
            trm_str_add(out, "\\-");
        else
            trm_str_add(out, "%c", *c);
        line_start = *c == '\n';
    }
}

static void add_option(const cli_option *o, trm_str *out) {
    char value[128];
    trm_str_add(out, ".TP\n\\fB\\-\\-");
    add_text(o->name, out);
    trm_str_add(out, "\\fR");
    if (o->kind != CLI_FLAG) {
        trm_str_add(out, o->kind == CLI_MAYBE ? " [\\fI" : " \\fI");
        add_text(cli_option_value(o, value, sizeof value), out);
        trm_str_add(out, o->kind == CLI_MAYBE ? "\\fR]" : "\\fR");
    }
    trm_str_add(out, "\n");
    add_text(o->about, out);
    trm_str_add(out, "%s%s\n", o->required ? " (needed)" : "",
                o->kind == CLI_LIST ? " (may be repeated)" : "");
}

static void add_verb(const cli_verb *v, trm_str *out) {
    trm_str_add(out, ".SS trireme ");
    add_text(v->name, out);
    if (*v->args) trm_str_add(out, " ");
    add_text(v->args, out);
    trm_str_add(out, "\n");
    add_text(v->about, out);
    trm_str_add(out, ".\n");
    for (const cli_option *o = v->options; o && o->name; o++) add_option(o, out);
    if (!v->more) return;
    trm_str_add(out, ".PP\n.nf\n");
    add_text(v->more, out);
    trm_str_add(out, ".fi\n");
}

void cli_manual(trm_str *out) {
    trm_str_add(
        out,
        ".TH TRIREME 1 \"\" \"Trireme " TRM_VERSION "\" \"User Commands\"\n"
        ".SH NAME\ntrireme \\- trains neural networks on many processors with MPI\n"
        ".SH SYNOPSIS\n\\fBtrireme\\fR \\fIVERB\\fR [\\fIoptions\\fR]\n.br\n"
        "\\fBmpirun\\fR \\fB\\-n\\fR \\fIRANKS\\fR \\fBtrireme train\\fR \\fIJOB\\fR\n"
        ".SH DESCRIPTION\nA job file in YAML says what is trained on which data; "
        "\\fBtrireme help job\\fR lists its keys.\nThe same job computes the same on any number of ranks.\n"
        ".SH VERBS\nOptions may stand before or behind the arguments; a word behind "
        "\\fB\\-\\-\\fR is an argument.\n\\fB\\-\\-help\\fR explains a verb.\n");
    for (int i = 0; cli_verbs[i]; i++) add_verb(cli_verbs[i], out);
    trm_str_add(out, ".SH EXIT STATUS\n"
                     ".TP\n0\ndone\n.TP\n1\nthe run failed\n.TP\n2\nwrong usage, job or data\n"
                     ".TP\n3\nthe machine lacks something\n.TP\n75\nstopped on purpose with a checkpoint\n");
}
