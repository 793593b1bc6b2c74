/* Private to the yaml files: building a tree. */
#ifndef TRM_TRAIN_YAML_IMPL_H
#define TRM_TRAIN_YAML_IMPL_H

#include "yaml_tree.h"

trm_yaml_node *trm_yaml_node_new(trm_yaml_kind kind, trm_yaml_place at);
void trm_yaml_node_free(trm_yaml_node *n);
/* Both take what they are given over, also on failure. */
trm_status trm_yaml_add_item(trm_yaml_node *list, trm_yaml_node *value);
trm_status trm_yaml_add_pair(trm_yaml_node *map, char *key, trm_yaml_place at, trm_yaml_node *value);
/* The pair whose key is the first len bytes of `key`, or NULL. */
trm_yaml_pair *trm_yaml_find_pair(const trm_yaml_node *map, const char *key, size_t len);
/* Copies a text cut to what fits, at the border of a character, with dots where it was cut. */
void trm_yaml_copy_cut(const char *text, char *buf, size_t cap);
/* Reads a text; the places are counted where at.line > 0.  *root belongs to the caller also on failure, and stays NULL where
 * there is nothing but comments. */
trm_status trm_yaml_read(trm_yaml_place at, const char *text, size_t n, trm_yaml_node **root);

#endif
