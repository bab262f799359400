/* Blocks of rows from and to RocksDB, without an object for each row.
 *
 * The library `librocksdbjni` in Spark's own jars exports RocksDB's C API. It is looked up at run
 * time (rows_load), so that building this file needs neither RocksDB nor its headers, and the
 * RocksDB that runs is the one of that Spark. flinkish/engine/stores/native.py calls these functions
 * by ctypes and documents them; the module that Python imports is empty.
 *
 * Functions that can fail get `message`, 1024 bytes for the reason, and return a null pointer or a
 * negative number.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#define XXH_INLINE_ALL
#include "xxhash.h"

#define MESSAGE 1024
#define LZ4 4

#define API(X)                                                                                     \
  X(void *, options_create, (void))                                                                \
  X(void, options_destroy, (void *))                                                               \
  X(void, options_set_compression, (void *, int))                                                  \
  X(void, options_set_max_open_files, (void *, int))                                               \
  X(void, options_set_max_sequential_skip_in_iterations, (void *, uint64_t))                       \
  X(void, options_set_block_based_table_factory, (void *, void *))                                 \
  X(void *, block_based_options_create, (void))                                                    \
  X(void, block_based_options_destroy, (void *))                                                   \
  X(void, block_based_options_set_format_version, (void *, int))                                   \
  X(void, block_based_options_set_filter_policy, (void *, void *))                                 \
  X(void *, filterpolicy_create_bloom, (double))                                                   \
  X(void *, envoptions_create, (void))                                                             \
  X(void, envoptions_destroy, (void *))                                                            \
  X(void *, sstfilewriter_create, (const void *, const void *))                                    \
  X(void, sstfilewriter_open, (void *, const char *, char **))                                     \
  X(void, sstfilewriter_put, (void *, const char *, size_t, const char *, size_t, char **))        \
  X(void, sstfilewriter_file_size, (void *, uint64_t *))                                           \
  X(void, sstfilewriter_finish, (void *, char **))                                                 \
  X(void, sstfilewriter_destroy, (void *))                                                         \
  X(void *, open_for_read_only, (const void *, const char *, unsigned char, char **))              \
  X(void, close, (void *))                                                                         \
  X(void *, readoptions_create, (void))                                                            \
  X(void, readoptions_destroy, (void *))                                                           \
  X(void, readoptions_set_verify_checksums, (void *, unsigned char))                               \
  X(void, readoptions_set_fill_cache, (void *, unsigned char))                                     \
  X(void *, create_iterator, (void *, const void *))                                               \
  X(void, iter_destroy, (void *))                                                                  \
  X(void, iter_seek_to_first, (void *))                                                            \
  X(unsigned char, iter_valid, (const void *))                                                     \
  X(void, iter_next, (void *))                                                                     \
  X(const char *, iter_key, (const void *, size_t *))                                              \
  X(const char *, iter_value, (const void *, size_t *))                                            \
  X(void, iter_get_error, (const void *, char **))                                                 \
  X(void, free, (void *))
#define DECLARE(result, name, arguments) static result(*r_##name) arguments;
API(DECLARE)

static void *environment;

static int failed(char *error, char *message) {
  if (!error) return 0;
  strncpy(message, error, MESSAGE - 1);
  message[MESSAGE - 1] = 0;
  r_free(error);
  return 1;
}

/* Of these functions and their arguments: native.VERSION. */
int rows_version(void) { return 3; }

int rows_load(const char *path, char *message) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const char *missing = 0;
  if (library) {
#define LOOK_UP(result, name, arguments)                                                           \
  if (!(*(void **)&r_##name = dlsym(library, "rocksdb_" #name))) missing = "rocksdb_" #name;
    API(LOOK_UP)
  }
  if (!library || missing) {
    const char *reason = missing ? missing : dlerror();
    strncpy(message, reason ? reason : "unknown", MESSAGE - 1);
    message[MESSAGE - 1] = 0;
    return -1;
  }
  environment = r_envoptions_create();
  return 0;
}

/* ---- reading: several stores, merged in key order */

typedef struct {
  void *options, *read_options, *database, *iterator;
  const char *key; /* of its current row; null at the end */
  size_t size;
} Store;

static void look(Store *store) {
  store->key = r_iter_valid(store->iterator) ? r_iter_key(store->iterator, &store->size) : 0;
}

/* RocksDB keeps up to `files` open. It never seeks on its own: with keys that are in no order this
 * may lead back, for ever. */
void *rows_open(const char *directory, int files, char *message) {
  Store *store = calloc(1, sizeof(Store));
  char *error = 0;
  if (!store) return strcpy(message, "no memory"), (void *)0;
  store->options = r_options_create();
  r_options_set_max_open_files(store->options, files);
  r_options_set_max_sequential_skip_in_iterations(store->options, UINT64_MAX);
  store->database = r_open_for_read_only(store->options, directory, 0, &error);
  if (failed(error, message)) {
    r_options_destroy(store->options);
    free(store);
    return 0;
  }
  store->read_options = r_readoptions_create();
  r_readoptions_set_verify_checksums(store->read_options, 1);
  r_readoptions_set_fill_cache(store->read_options, 0);
  store->iterator = r_create_iterator(store->database, store->read_options);
  r_iter_seek_to_first(store->iterator);
  look(store);
  return store;
}

void rows_close(void *opened) {
  Store *store = opened;
  r_iter_destroy(store->iterator);
  r_readoptions_destroy(store->read_options);
  r_close(store->database);
  r_options_destroy(store->options);
  free(store);
}

static Store *first_of(Store **stores, int64_t count) {
  Store *best = 0;
  for (int64_t i = 0; i < count; i++) {
    Store *store = stores[i];
    if (!store->key) continue;
    if (best) {
      size_t common = store->size < best->size ? store->size : best->size;
      int order = memcmp(store->key, best->key, common);
      if (order > 0 || (order == 0 && store->size >= best->size)) continue;
    }
    best = store;
  }
  return best;
}

static int any_failed(Store **stores, int64_t count, char *message) {
  for (int64_t i = 0; i < count; i++) {
    char *error = 0;
    r_iter_get_error(stores[i]->iterator, &error);
    if (failed(error, message)) return 1;
  }
  return 0;
}

/* Starts are such that the byte after `skip` of a key, and after 1 of a value, is aligned to 8. */
static int64_t aligned(int64_t at, int64_t skip) { return ((at + skip + 7) & ~(int64_t)7) - skip; }

/* Copies rows of one family (equal first `prefix` bytes), until `most` or until a buffer is full.
 * Returns the number of rows, 0 at the end, -1 for an error, and -2 if the next row alone needs more
 * room, with the sizes of its key and value in `need`. */
int64_t rows_next(Store **stores, int64_t count, int64_t most, int64_t prefix, int64_t *key_starts,
                  int64_t *key_sizes, char *keys, int64_t keys_room, int64_t *value_starts,
                  int64_t *value_sizes, char *values, int64_t values_room, int64_t *need,
                  char *message) {
  int64_t rows = 0, key_end = 0, value_end = 0;
  while (rows < most) {
    Store *store = first_of(stores, count);
    if (!store) break;
    if ((int64_t)store->size < prefix) {
      strcpy(message, "a key is shorter than the id of its family");
      return -1;
    }
    if (rows && prefix && memcmp(keys + key_starts[0], store->key, prefix)) return rows;
    size_t size;
    const char *value = r_iter_value(store->iterator, &size);
    int64_t key_at = aligned(key_end, prefix + 1), value_at = aligned(value_end, 1);
    if (key_at + (int64_t)store->size > keys_room || value_at + (int64_t)size > values_room) {
      need[0] = store->size + 16;
      need[1] = size + 16;
      return rows ? rows : -2;
    }
    memcpy(keys + key_at, store->key, store->size);
    memcpy(values + value_at, value, size);
    key_starts[rows] = key_at;
    key_sizes[rows] = store->size;
    value_starts[rows] = value_at;
    value_sizes[rows] = size;
    key_end = key_at + store->size;
    value_end = value_at + size;
    rows++;
    r_iter_next(store->iterator);
    look(store);
    if (!store->key && any_failed(&store, 1, message)) return -1;
  }
  if (!rows && any_failed(stores, count, message)) return -1;
  return rows;
}

/* Digests the rows of the current family of one store: those with the first `prefix` bytes of the
 * current key. Returns their number, or -1. */
int64_t rows_digest_family(void *opened, int64_t prefix, uint64_t salt, uint64_t *sums,
                           char *message) {
  Store *store = opened;
  char family[8];
  int64_t rows = 0;
  uint64_t keys = 0, content = 0;
  if (!store->key) return 0;
  memcpy(family, store->key, prefix);
  while (store->key && (int64_t)store->size >= prefix && !memcmp(family, store->key, prefix)) {
    size_t size;
    const char *value = r_iter_value(store->iterator, &size);
    uint64_t hash = XXH3_64bits_withSeed(store->key + prefix, store->size - prefix, salt);
    keys += hash;
    content += XXH3_64bits_withSeed(value, size, hash);
    rows++;
    r_iter_next(store->iterator);
    look(store);
  }
  if (any_failed(&store, 1, message)) return -1;
  sums[0] += keys;
  sums[1] += content;
  return rows;
}

/* Copies the first `prefix` bytes of the current key; returns 0 at the end, -1 for an error. */
int rows_peek(void *opened, int64_t prefix, char *family, char *message) {
  Store *store = opened;
  if (!store->key) return any_failed(&store, 1, message) ? -1 : 0;
  if ((int64_t)store->size < prefix) {
    strcpy(message, "a key is shorter than the id of its family");
    return -1;
  }
  memcpy(family, store->key, prefix);
  return 1;
}

void rows_digest(int64_t rows, const int64_t *key_starts, const int64_t *key_sizes,
                 const char *keys, const int64_t *value_starts, const int64_t *value_sizes,
                 const char *values, uint64_t salt, uint64_t *sums) {
  for (int64_t i = 0; i < rows; i++) {
    uint64_t hash = XXH3_64bits_withSeed(keys + key_starts[i], key_sizes[i], salt);
    sums[0] += hash;
    sums[1] += XXH3_64bits_withSeed(values + value_starts[i], value_sizes[i], hash);
  }
}

/* ---- writing: SSTs as flinkish/engine/stores/rocksdb_writer writes them */

typedef struct {
  void *options, *writer;
} File;

static void discard(File *file) {
  r_sstfilewriter_destroy(file->writer);
  r_options_destroy(file->options);
  free(file);
}

void *rows_create(const char *path, char *message) {
  File *file = calloc(1, sizeof(File));
  char *error = 0;
  if (!file) return strcpy(message, "no memory"), (void *)0;
  void *blocks = r_block_based_options_create();
  r_block_based_options_set_format_version(blocks, 5);
  r_block_based_options_set_filter_policy(blocks, r_filterpolicy_create_bloom(10));
  file->options = r_options_create();
  r_options_set_block_based_table_factory(file->options, blocks);
  r_block_based_options_destroy(blocks);
  r_options_set_compression(file->options, LZ4);
  file->writer = r_sstfilewriter_create(environment, file->options);
  r_sstfilewriter_open(file->writer, path, &error);
  if (failed(error, message)) {
    discard(file);
    return 0;
  }
  return file;
}

/* Puts each row into the file of its partition. */
int rows_put(void **files, int64_t rows, const int32_t *partitions, const int64_t *key_starts,
             const int64_t *key_sizes, const char *keys, const int64_t *value_starts,
             const int64_t *value_sizes, const char *values, char *message) {
  char *error = 0;
  for (int64_t i = 0; i < rows; i++) {
    File *file = files[partitions[i]];
    r_sstfilewriter_put(file->writer, keys + key_starts[i], key_sizes[i],
                        values + value_starts[i], value_sizes[i], &error);
    if (failed(error, message)) return -1;
  }
  return 0;
}

int64_t rows_size(void *opened) {
  uint64_t size = 0;
  r_sstfilewriter_file_size(((File *)opened)->writer, &size);
  return size;
}

/* Completes a file, or abandons it. */
int rows_finish(void *opened, int complete, char *message) {
  File *file = opened;
  char *error = 0;
  if (complete) r_sstfilewriter_finish(file->writer, &error);
  int result = failed(error, message) ? -1 : 0;
  discard(file);
  return result;
}

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "flinkish_rocksdb", 0, -1, 0, 0, 0, 0, 0};

PyMODINIT_FUNC PyInit_flinkish_rocksdb(void) { return PyModule_Create(&module); }
