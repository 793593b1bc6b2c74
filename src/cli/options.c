/* options: a verb's table turned into a parser and a help text. */
#include <string.h>

#include "cli.h"

#define MOST_OPTIONS 32

/* ---- looking up ---- */

static const cli_option *find(const cli_verb *v, const char *name, size_t n) {
    for (const cli_option *o = v->options; o && o->name; o++)
        if (strlen(o->name) == n && strncmp(o->name, name, n) == 0) return o;
    return NULL;
}

static trm_status unknown_option(const cli_verb *v, const char *dashes, const char *name, size_t n) {
    const char *names[MOST_OPTIONS] = {0};
    char word[64];
    int count = 0;
    for (const cli_option *o = v->options; o && o->name && count < MOST_OPTIONS - 1; o++)
        names[count++] = o->name;
    snprintf(word, sizeof word, "%.*s", (int)(n < 60 ? n : 60), name);
    const char *near = trm_nearest(word, names);
    trm_fail(TRM_USAGE, "unknown option '%s%s' of 'trireme %s'", dashes, word, v->name);
    if (near)
        trm_hint("did you mean --%s?", near);
    else
        trm_hint("see trireme %s --help", v->name);
    return TRM_USAGE;
}

/* ---- setting ---- */

static void range_text(const cli_option *o, char *buf, size_t cap) {
    if (o->max > 0)
        snprintf(buf, cap, "whole numbers from %lld to %lld", (long long)o->min, (long long)o->max);
    else
        snprintf(buf, cap, "whole numbers from %lld", (long long)o->min);
}

static trm_status set_int(const cli_option *o, const char *value, int64_t *to) {
    char range[80];
    int64_t v;
    range_text(o, range, sizeof range);
    if (!trm_parse_int(value, &v) || v < o->min || (o->max > 0 && v > o->max))
        return trm_fail(TRM_USAGE, "--%s is '%.60s'; allowed are %s", o->name, value, range);
    *to = v;
    return TRM_OK;
}

static void choices_text(const cli_option *o, char *buf, size_t cap) {
    size_t n = 0;
    buf[0] = '\0';
    for (int i = 0; o->choices[i] && n < cap; i++)
        n += (size_t)snprintf(buf + n, cap - n, "%s%s", i ? "|" : "", o->choices[i]);
}

const char *cli_option_value(const cli_option *o, char *buf, size_t cap) {
    if (o->kind != CLI_CHOICE) return o->value;
    choices_text(o, buf, cap);
    return buf;
}

static trm_status set_choice(const cli_option *o, const char *value, int *to) {
    char all[128];
    for (int i = 0; o->choices[i]; i++) {
        if (strcmp(o->choices[i], value) != 0) continue;
        *to = i;
        return TRM_OK;
    }
    choices_text(o, all, sizeof all);
    trm_fail(TRM_USAGE, "--%s is '%.60s'; allowed are %s", o->name, value, all);
    const char *near = trm_nearest(value, o->choices);
    if (near) trm_hint("did you mean %s?", near);
    return TRM_USAGE;
}

static trm_status set(const cli_option *o, const char *value, void *settings) {
    void *to = (char *)settings + o->at;
    switch (o->kind) {
    case CLI_FLAG: *(bool *)to = true; return TRM_OK;
    case CLI_TEXT:
    case CLI_MAYBE: *(const char **)to = value; return TRM_OK;
    case CLI_INT: return set_int(o, value, to);
    case CLI_CHOICE: return set_choice(o, value, to);
    case CLI_LIST: {
        cli_list *l = to;
        l->at[l->n++] = value;
        return TRM_OK;
    }
    }
    return TRM_OK;
}

/* ---- parsing ---- */

typedef struct parser {
    const cli_verb *verb;
    int argc, at;
    char **argv;
    cli_call *call;
    bool given[MOST_OPTIONS], help;
} parser;

static trm_status no_value(const cli_option *o) {
    char all[128];
    const char *value = cli_option_value(o, all, sizeof all);
    return trm_fail(TRM_USAGE, "--%s needs a value: --%s %s", o->name, o->name, value);
}

/* The value of an option: behind '=', else the next word. */
static trm_status value_of(parser *p, const cli_option *o, const char *equals, const char **value) {
    *value = equals ? equals + 1 : "";
    if (o->kind == CLI_FLAG && equals) return trm_fail(TRM_USAGE, "--%s takes no value", o->name);
    if (o->kind == CLI_FLAG || equals) return TRM_OK;
    /* A word with two dashes is the next option; as a value it needs the '='. */
    bool next = p->at + 1 < p->argc && strncmp(p->argv[p->at + 1], "--", 2) != 0;
    if (o->kind == CLI_MAYBE && (!next || p->argv[p->at + 1][0] == '-' || p->call->args < p->verb->max_args))
        return TRM_OK;
    if (!next) return no_value(o);
    *value = p->argv[++p->at];
    return TRM_OK;
}

static trm_status parse_option(parser *p) {
    const char *name = p->argv[p->at] + 2, *equals = strchr(name, '='), *value;
    size_t n = equals ? (size_t)(equals - name) : strlen(name);
    if (n == 4 && strncmp(name, "help", 4) == 0) {
        p->help = true;
        return TRM_OK;
    }
    const cli_option *o = find(p->verb, name, n);
    if (!o) return unknown_option(p->verb, "--", name, n);
    TRM_TRY(value_of(p, o, equals, &value));
    bool *given = &p->given[o - p->verb->options];
    if (*given && o->kind != CLI_LIST)
        return trm_fail(TRM_USAGE, "--%s is given twice; allowed is once", o->name);
    *given = true;
    return set(o, value, p->call->set);
}

static trm_status too_many(const parser *p) {
    trm_fail(TRM_USAGE, "'trireme %s' has no use for '%.60s'", p->verb->name, p->argv[p->at]);
    trm_hint("usage: trireme %s %s", p->verb->name, p->verb->args);
    return TRM_USAGE;
}

static trm_status parse_words(parser *p) {
    bool options = true;
    for (p->at = 0; p->at < p->argc; p->at++) {
        char *word = p->argv[p->at];
        if (options && strcmp(word, "--") == 0) {
            options = false;
        } else if (options && strcmp(word, "-h") == 0) {
            p->help = true;
        } else if (options && strncmp(word, "--", 2) == 0) {
            TRM_TRY(parse_option(p));
        } else if (options && word[0] == '-' && word[1]) {
            return unknown_option(p->verb, "-", word + 1, strlen(word + 1));
        } else if (p->verb->max_args >= 0 && p->call->args == p->verb->max_args) {
            return too_many(p);
        } else {
            p->call->arg[p->call->args++] = word;
        }
    }
    return TRM_OK;
}

static trm_status check_complete(const parser *p) {
    if (p->call->args < p->verb->min_args) {
        trm_fail(TRM_USAGE, "'trireme %s' needs %s", p->verb->name, p->verb->args);
        trm_hint("see trireme %s --help", p->verb->name);
        return TRM_USAGE;
    }
    for (const cli_option *o = p->verb->options; o && o->name; o++) {
        char all[128];
        if (o->required && !p->given[o - p->verb->options])
            return trm_fail(TRM_USAGE, "'trireme %s' needs --%s %s", p->verb->name, o->name,
                            cli_option_value(o, all, sizeof all));
    }
    return TRM_OK;
}

/* ---- running ---- */

static trm_status make_room(parser *p) {
    const cli_verb *v = p->verb;
    size_t words = (size_t)p->argc + 1;
    p->call->set = trm_alloc(v->size + 1, "settings");
    p->call->arg = trm_alloc_array(words, sizeof *p->call->arg, "arguments");
    if (!p->call->set || !p->call->arg) return TRM_MEMORY;
    if (v->defaults) memcpy(p->call->set, v->defaults, v->size);
    for (const cli_option *o = v->options; o && o->name; o++) {
        if (o->kind != CLI_LIST) continue;
        cli_list *l = (cli_list *)(void *)((char *)p->call->set + o->at);
        l->at = trm_alloc_array(words, sizeof *l->at, "arguments");
        if (!l->at) return TRM_MEMORY;
    }
    return TRM_OK;
}

static void free_room(parser *p) {
    for (const cli_option *o = p->verb->options; o && o->name && p->call->set; o++)
        if (o->kind == CLI_LIST) trm_free(((cli_list *)(void *)((char *)p->call->set + o->at))->at);
    trm_free(p->call->set);
    trm_free(p->call->arg);
}

static void show_help(const cli_verb *v) {
    trm_str text = {0};
    cli_verb_help(v, &text);
    ui_print(trm_str_get(&text));
    trm_str_free(&text);
}

trm_status cli_verb_run(const cli_verb *v, int argc, char **argv) {
    cli_call call = {.word = argv, .words = argc};
    parser p = {.verb = v, .argc = argc, .argv = argv, .call = &call};
    trm_status status = make_room(&p);
    if (status == TRM_OK) status = parse_words(&p);
    if (status == TRM_OK && p.help)
        show_help(v);
    else if (status == TRM_OK && (status = check_complete(&p)) == TRM_OK)
        status = v->run(&call);
    free_room(&p);
    return status;
}

/* ---- help ---- */

static void option_head(const cli_option *o, char *buf, size_t cap) {
    char all[128];
    const char *value = cli_option_value(o, all, sizeof all);
    if (o->kind == CLI_FLAG)
        snprintf(buf, cap, "--%s", o->name);
    else
        snprintf(buf, cap, o->kind == CLI_MAYBE ? "--%s [%s]" : "--%s %s", o->name, value);
}

void cli_verb_help(const cli_verb *v, trm_str *out) {
    trm_str_add(out, "usage: trireme %s%s%s%s\n\n%s\n", v->name, *v->args ? " " : "", v->args,
                v->options && v->options->name ? " [options]" : "", v->about);
    if (v->options && v->options->name) trm_str_add(out, "\n");
    for (const cli_option *o = v->options; o && o->name; o++) {
        char head[200];
        option_head(o, head, sizeof head);
        trm_str_add(out, strlen(head) > 26 ? "  %s\n%30s%s%s%s\n" : "  %-26s%s  %s%s%s\n", head, "", o->about,
                    o->required ? " (needed)" : "", o->kind == CLI_LIST ? " (may be repeated)" : "");
    }
    if (v->more) trm_str_add(out, "\n%s", v->more);
}
