/* cli: verbs and options.  The only room that prints, reads argv and exits. */
#ifndef TRIREME_CLI_H
#define TRIREME_CLI_H

#include <trireme/base.h>

/* ---- options: one table per verb parses and explains ---- */

typedef enum cli_kind {
    CLI_FLAG,                       /* bool */
    CLI_TEXT,                       /* const char * */
    CLI_MAYBE,                      /* const char *: --name=TEXT, or --name TEXT behind the arguments; alone it is "" */
    CLI_INT,                        /* int64_t */
    CLI_CHOICE,                     /* int: index into `choices` */
    CLI_LIST,                       /* cli_list: may be given more than once */
} cli_kind;

typedef struct cli_list { const char **at; int n; } cli_list;

typedef struct cli_option {
    const char *name;               /* "seed", without the dashes; NULL ends the table */
    cli_kind kind;
    size_t at;                      /* offset in the verb's struct of settings */
    const char *value;              /* what stands for the value in the help: "FILE" */
    const char *about;              /* with unit and default */
    int64_t min, max;               /* INT; max 0 = no upper end */
    const char *const *choices;     /* CHOICE, NULL-terminated */
    bool required;
} cli_option;

typedef struct cli_call {
    void *set;                      /* the verb's struct of settings */
    char **arg;                     /* arguments without options */
    int args;
    char **word;                    /* all that stands behind the verb's name */
    int words;
} cli_call;

typedef struct cli_verb {
    const char *name;               /* one word or more: "data import mnist" */
    const char *args;               /* "JOB" */
    const char *about;              /* one line */
    const char *more;               /* lines below the options in its help, or NULL */
    int min_args, max_args;
    const cli_option *options;
    size_t size;                    /* of the struct of settings, zeroed unless `defaults` is given */
    const void *defaults;
    bool ranks;                     /* runs on all ranks of a launcher; the others do their work on rank 0 */
    bool hidden;                    /* the program calls it itself: no help names it */
    trm_status (*run)(const cli_call *call);
} cli_verb;

extern const cli_verb cli_train, cli_check, cli_eval, cli_predict, cli_info, cli_export, cli_balance, cli_help;
extern const cli_verb cli_data_info, cli_data_check, cli_data_synth, cli_data_order, cli_data_guard, cli_data_dump;
extern const cli_verb cli_data_split, cli_data_shuffle, cli_data_repack, cli_data_stats;
extern const cli_verb cli_data_import_mnist, cli_data_import_cifar, cli_data_import_csv, cli_data_import_npy,
    cli_data_import_npz, cli_data_import_text, cli_data_import_images;
extern const cli_verb *const cli_verbs[];       /* NULL-terminated */

/* Runs a verb on the words behind its name. */
trm_status cli_verb_run(const cli_verb *v, int argc, char **argv);
/* Its help, from its table. */
void cli_verb_help(const cli_verb *v, trm_str *out);
/* The verb that the first words name, and how many words that are; NULL: none. */
const cli_verb *cli_verb_find(int argc, char **argv, int *words);
/* What stands for an option's value in a text. */
const char *cli_option_value(const cli_option *o, char *buf, size_t cap);
/* The manual page, for man. */
void cli_manual(trm_str *out);
void cli_overview(trm_str *out);
/* The verbs whose names begin with these words, "data" or "data import"; false: none does. */
bool cli_group_help(int words, char **word, trm_str *out);
/* TRM_USAGE: "unknown verb 'trian'", with the nearest one as a hint. */
trm_status cli_unknown_verb(int argc, char **argv);

/* USAGE sentence where `path` cannot be a checkpoint: it is no folder. */
trm_status cli_check_checkpoint(const char *path);
/* The same where the file of --dump-losses (NULL: none) cannot be written, or is the job file. */
trm_status cli_check_log(const char *path, const char *job);

/* ---- what the user sees: results and progress on stdout, faults and warnings on stderr ---- */

/* quiet: lines go to the log file only.  Installs the sink of trm_log. */
void ui_begin(bool quiet);
/* Lines from now on also go to `folder`/log.txt. */
void ui_log_folder(const char *folder);
bool ui_is_terminal(void);
/* A result: as it is, never quiet. */
void ui_print(const char *text);
/* A line of a run.  transient: overwritten by the next one; shown on terminals only. */
void ui_line(const char *line, bool transient);
/* "trireme: <sentence>" and "hint: ..." of the recorded fault: the last thing that is printed. */
void ui_fault(trm_status s);
/* Exit code with regard to what could not be written. */
int ui_end(int code);

/* The last call of main: `code`, and where that is not 0 it keeps mpirun from dallying. */
int cli_leave(int code);

#endif
