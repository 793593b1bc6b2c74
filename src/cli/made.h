/* made: what the verbs that make data sets say. */
#ifndef TRIREME_CLI_MADE_H
#define TRIREME_CLI_MADE_H

#include <trireme/make.h>

/* A line that is overwritten, on terminals. */
trm_tell made_tell(void);
/* "wrote FILE: ..." and the line of a job file that reads it. */
void made_say(const char *out, const trm_made *made);
/* A path as a value of a job file: quoted where it has to be. */
void made_yaml(const char *path, trm_str *out);

#endif
