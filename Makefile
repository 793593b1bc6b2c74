# Trireme.  One Makefile; everything it makes lies under build/.  `make help` lists the targets.
#
#   V=1                 shows the whole commands
#   OUT=dir             another folder instead of build/
#   ARCH=native         tune for this machine (benchmarks); default x86-64-v2
#   SANITIZE=address    sanitizers, comma separated (see `make asan`, `make tsan`)
#   DNNL_PREFIX=dir     a oneDNN with include/ and lib/ instead of the system's
#   MPICC=cmd           the MPI compiler wrapper that is asked for flags; default mpicc
#   T=tests/unit/base   only the tests whose path starts so

VERSION := 0.1.0
SOVERSION := 0
OUT ?= build
ARCH ?= x86-64-v2
MPICC ?= mpicc
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
ifeq ($(origin CC),default)
CC := gcc
endif

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-5s %s\n' $(1) '$(2)')

# ---- what is there -----------------------------------------------------------------------------

LIB_SRC := $(filter-out src/cli/%,$(wildcard src/*/*.c src/*/*/*.c))
CLI_SRC := $(wildcard src/cli/*.c)
REF_SRC := $(wildcard kernels/ref/*.c)
CPU_SRC := $(wildcard kernels/cpu/*.c)
HEADERS := $(wildcard include/trireme/*.h)
TEST_SRC := $(wildcard tests/unit/test_*.c tests/unit/*/test_*.c tests/conform/test_*.c tests/mpi/test_*.c)
TEST_SH := $(wildcard tests/system/*.sh tests/gpu/*.sh)
BENCH_SRC := $(wildcard tests/bench/*.c)

# Own kernels exist once per instruction set; the back end picks a table when it starts.
ISAS := v2 v3 v4

obj = $(patsubst %.c,$(OUT)/obj/%.o,$(1))
LIB_OBJ := $(call obj,$(LIB_SRC) $(REF_SRC)) $(foreach i,$(ISAS),$(patsubst %.c,$(OUT)/obj/%.$(i).o,$(CPU_SRC)))
CLI_OBJ := $(call obj,$(CLI_SRC))
LIB_A := $(OUT)/libtrireme.a
LIB_SO := $(OUT)/libtrireme.so.$(SOVERSION)
BIN := $(OUT)/trireme

# ---- what the machine has ----------------------------------------------------------------------

# Probed once and cached; probed again when the probe or one of these words changes.
PROBE_ARGS := CC="$(CC)" MPICC="$(MPICC)" DNNL_PREFIX="$(DNNL_PREFIX)"
NEEDS_PROBE := $(if $(filter-out clean help lint format,$(or $(MAKECMDGOALS),all)),yes)
ifdef NEEDS_PROBE
$(shell mkdir -p $(OUT); echo '$(PROBE_ARGS)' | cmp -s - $(OUT)/probe.args || echo '$(PROBE_ARGS)' >$(OUT)/probe.args)
include $(OUT)/config.mk
endif

$(OUT)/config.mk: launch/probe $(OUT)/probe.args
	@$(PROBE_ARGS) launch/probe $@

# ---- flags -------------------------------------------------------------------------------------

WARN := -Wall -Wextra -Wshadow -Wformat=2 -Wvla -Werror=implicit -Werror=unused-result
march = -march=$(1)$(if $(filter native,$(1)),, -mtune=generic)
# gcc's OpenMP is opaque to the thread sanitizer: there, loops run on one thread, and what is tested
# are the threads of the feed and of the exchange.
OPENMP := $(if $(findstring thread,$(SANITIZE)),-fopenmp-simd -Wno-unused,-fopenmp)
BASE_FLAGS := -std=c11 -D_GNU_SOURCE -g -fPIC -fvisibility=hidden -fstack-protector-strong \
	-MMD -MP $(WARN) $(OPENMP) -Iinclude
BASE_FLAGS += $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer)
ALL_CFLAGS = $(BASE_FLAGS) -O2 $(call march,$(ARCH)) $(CFLAGS)
REF_CFLAGS = $(ALL_CFLAGS) -Ikernels
CPU_CFLAGS = $(BASE_FLAGS) -Ikernels -O3 -fno-math-errno -fno-trapping-math $(CFLAGS)
ALL_LDFLAGS = -fopenmp $(if $(SANITIZE),-fsanitize=$(SANITIZE)) -Wl,-z,relro,-z,now $(LDFLAGS)
LIBS = $(DNNL_LIBS) $(MPI_LIBS) $(HDF5_LIBS) $(YAML_LIBS) $(JANSSON_LIBS) $(ZLIB_LIBS) $(PNG_LIBS) $(JPEG_LIBS) \
	$(ZIP_LIBS) $(PCRE2_LIBS) $(DEFLATE_LIBS) \
	-lpthread -lrt -ldl -lm

# A room sees <trireme/*.h>, its own folder (in quotes), and only the libraries named here.
FLAGS_base = $(RANDOM123_CFLAGS)
FLAGS_wire = $(JANSSON_CFLAGS)
FLAGS_backend = -Ikernels $(DNNL_CFLAGS)
FLAGS_comm_mpi = $(MPI_CFLAGS)
FLAGS_data = $(HDF5_CFLAGS) $(ZLIB_CFLAGS) $(DEFLATE_CFLAGS) $(PNG_CFLAGS) $(JPEG_CFLAGS) $(ZIP_CFLAGS) \
	$(PCRE2_CFLAGS) $(JANSSON_CFLAGS)
FLAGS_train = $(YAML_CFLAGS) $(JANSSON_CFLAGS)
FLAGS_pool = $(JANSSON_CFLAGS)
FLAGS_report = $(JANSSON_CFLAGS)
FLAGS_cli = $(JANSSON_CFLAGS) -DTRM_VERSION='"$(VERSION)"'
# $(call room_flags,backend/cpu/x): the room is the first folder, the second may add its own.
room_flags = $(call room_flags_of,$(word 1,$(subst /, ,$(1))),$(word 2,$(subst /, ,$(1))))
room_flags_of = -iquote src/$(1) $(FLAGS_$(1)) $(FLAGS_$(1)_$(2))

# A test sees what its room sees, the test support, and MPI where it speaks to ranks.
TEST_FLAGS_unit = $(call room_flags,$(1))
TEST_FLAGS_conform = -Ikernels $(MPI_CFLAGS)
TEST_FLAGS_mpi = $(MPI_CFLAGS)
test_flags = -iquote tests/support $(call TEST_FLAGS_$(word 2,$(subst /, ,$(1))),$(patsubst tests/unit/%,%,$(1)))

# Objects are made again when the flags change.
ifdef NEEDS_PROBE
STAMP := $(CC) $(ALL_CFLAGS) $(CPU_CFLAGS) $(ALL_LDFLAGS) $(VERSION)
$(shell echo '$(subst ','\'',$(STAMP))' | cmp -s - $(OUT)/flags || echo '$(subst ','\'',$(STAMP))' >$(OUT)/flags)
endif
BUILT_BY := Makefile $(OUT)/flags $(OUT)/config.mk

# ---- build -------------------------------------------------------------------------------------

## all: the library, static and shared, and the command build/trireme (default)
.PHONY: all
all: $(LIB_A) $(OUT)/libtrireme.so $(if $(CLI_SRC),$(BIN))

$(OUT)/obj/src/%.o: src/%.c $(BUILT_BY)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(call room_flags,$*) -c $< -o $@

$(OUT)/obj/kernels/ref/%.o: kernels/ref/%.c $(BUILT_BY)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(REF_CFLAGS) -c $< -o $@

define ISA_RULE
$(OUT)/obj/kernels/cpu/%.$(1).o: kernels/cpu/%.c $(BUILT_BY)
	$$(call say,CC,$$< ($(1)))
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(CPU_CFLAGS) -DTRM_ISA=$(1) -march=x86-64-$(1) -c $$< -o $$@
endef
$(foreach i,$(ISAS),$(eval $(call ISA_RULE,$(i))))

$(LIB_A): $(LIB_OBJ)
	$(call say,AR,$@)
	@rm -f $@
	$(Q)ar rcs $@ $^

$(LIB_SO): $(LIB_OBJ)
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,-soname,$(@F) $(ALL_LDFLAGS) $(if $(SANITIZE),,-Wl,--no-undefined) $^ $(LIBS) -o $@

$(OUT)/libtrireme.so: $(LIB_SO)
	@ln -sf $(<F) $@

$(BIN): $(CLI_OBJ) $(LIB_A)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

# ---- examples ----------------------------------------------------------------------------------

# Built as a user would: with what trireme.pc says, against the static library.
EXAMPLES := $(patsubst docs/examples/%.c,$(OUT)/examples/%,$(wildcard docs/examples/*.c))
pc_file = sed -e 's|@PREFIX@|$(1)|; s|@LIBDIR@|$(2)|; s|@VERSION@|$(VERSION)|; s|@LIBS@|$(LIBS) -fopenmp|' launch/trireme.pc.in

$(OUT)/trireme-uninstalled.pc: launch/trireme.pc.in $(BUILT_BY)
	$(Q)$(call pc_file,$(CURDIR),$(abspath $(OUT))) >$@

$(OUT)/examples/%: docs/examples/%.c $(wildcard docs/examples/*.h) $(OUT)/trireme-uninstalled.pc $(LIB_A)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)flags=$$(PKG_CONFIG_PATH=$(OUT) pkg-config --cflags --libs --static trireme | sed 's/-ltrireme/-l:libtrireme.a/') && \
		$(CC) -std=c11 -D_GNU_SOURCE -O2 $(WARN) $(if $(SANITIZE),-fsanitize=$(SANITIZE)) $(MPI_CFLAGS) $(HDF5_CFLAGS) \
		$< $$flags -o $@

## examples: the programs of docs/examples, in build/examples
.PHONY: examples
examples: $(EXAMPLES)

# ---- tests -------------------------------------------------------------------------------------

TESTS := $(filter $(T)%,$(TEST_SRC) $(TEST_SH))
TEST_BIN := $(patsubst %.c,$(OUT)/%,$(filter %.c,$(TESTS)))
SUPPORT_OBJ := $(OUT)/obj/tests/support/support.o
MPI_SUPPORT_OBJ := $(OUT)/obj/tests/support/mpi_support.o

$(OUT)/obj/tests/support/%.o: tests/support/%.c $(BUILT_BY)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(CMOCKA_CFLAGS) $(MPI_CFLAGS) -c $< -o $@

$(OUT)/obj/tests/%.o: tests/%.c $(BUILT_BY)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(CMOCKA_CFLAGS) $(call test_flags,$<) -c $< -o $@

# Files beside a test that are not called test_* belong to every test of their folder.
.SECONDEXPANSION:
beside = $(call obj,$(filter-out $(dir $(1))test_%,$(wildcard $(dir $(1))*.c)))

$(OUT)/tests/unit/%: $(OUT)/obj/tests/unit/%.o $$(call beside,tests/unit/$$*) $(SUPPORT_OBJ) $(LIB_A)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(CMOCKA_LIBS) $(LIBS) -o $@

$(OUT)/tests/%: $(OUT)/obj/tests/%.o $$(call beside,tests/$$*) $(SUPPORT_OBJ) $(MPI_SUPPORT_OBJ) $(LIB_A)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(CMOCKA_LIBS) $(LIBS) -o $@

## test: build and run the tests (T=tests/unit/base: only those)
.PHONY: test
test: $(TEST_BIN) $(if $(and $(TEST_SH),$(CLI_SRC)),$(BIN)) $(if $(filter %-balance-examples.sh %-own-loop.sh,$(TESTS)),$(EXAMPLES))
	@$(if $(HAVE_CMOCKA),:,echo "the tests need CMocka: apt-get install libcmocka-dev" >&2; exit 3)
	@command -v prove >/dev/null || { echo "the tests need prove: apt-get install perl" >&2; exit 3; }
	@$(if $(TESTS),:,echo "no test starts with '$(T)'" >&2; exit 2)
	@OUT=$(OUT) SANITIZE=$(SANITIZE) HARNESS_RULESFILE=tests/rules.yml prove -j2 --timer --exec tests/run $(PROVE_FLAGS) \
		$$(tests/run --list $(TESTS))

## asan: the tests under the address and undefined-behaviour sanitizers, in build/asan
## tsan: the tests under the thread sanitizer, in build/tsan
.PHONY: asan tsan
asan:
	@$(MAKE) OUT=$(OUT)/asan SANITIZE=address,undefined test
tsan:
	@$(MAKE) OUT=$(OUT)/tsan SANITIZE=thread test

BENCH_BIN := $(patsubst tests/bench/%.c,$(OUT)/bench/%,$(filter $(T)%,$(BENCH_SRC)))

$(OUT)/bench/%: $(OUT)/obj/tests/bench/%.o $(LIB_A)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

TEST_FLAGS_bench = -Ikernels $(MPI_CFLAGS) $(DNNL_CFLAGS)

## bench: build and run the benchmarks (best with ARCH=native)
.PHONY: bench
bench: all $(BENCH_BIN)
	@for b in $(filter-out %/step,$(BENCH_BIN)); do echo "== $$b"; $$b || exit 1; done
	@OUT=$(OUT) tests/bench/models
	@OUT=$(OUT) tests/bench/overlap
	@OUT=$(OUT) tests/bench/traces
	@OUT=$(OUT) tests/bench/balance

## lint: floors, headers, format, cppcheck, banned calls and words
.PHONY: lint
lint:
	@OUT=$(OUT) MAKE='$(MAKE)' tests/lint/all

## format: rewrite the .c files in the style that lint checks (T=src/base: only those)
.PHONY: format
format:
	@tests/lint/files '$(T)*.c' | xargs -r clang-format -i

# Each header has to compile alone, public ones without any library's flags but mpi.h's.
HEADER_OK := $(patsubst %.h,$(OUT)/headers/%.ok,$(HEADERS) \
	$(wildcard src/*/*.h src/*/*/*.h kernels/*.h kernels/*/*.h tests/support/*.h))

.PHONY: headers
headers: $(HEADER_OK)

header_flags = -Wno-unused -Ikernels $(if $(filter src/%,$(1)),$(call room_flags,$(patsubst src/%,%,$(1)))) \
	$(if $(filter tests/% %/mpi.h,$(1)),$(MPI_CFLAGS) $(CMOCKA_CFLAGS))
$(OUT)/headers/%.ok: %.h $(BUILT_BY)
	@mkdir -p $(@D)
	$(Q)echo '#include "$(abspath $<)"' | \
		$(CC) $(ALL_CFLAGS) $(call header_flags,$<) -DTRM_ISA=v2 -MT $@ -MF $(@:.ok=.d) -fsyntax-only -x c -
	@touch $@

# ---- install -----------------------------------------------------------------------------------

# Written by the command itself, out of the tables that its options are read with.
$(OUT)/trireme.1: $(BIN)
	$(call say,MAN,$@)
	$(Q)$(BIN) help man >$@

## install: headers, libraries, command, manual page and trireme.pc below DESTDIR and PREFIX (/usr/local)
.PHONY: install
install: all $(if $(CLI_SRC),$(OUT)/trireme.1)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/include/trireme $(DESTDIR)$(LIBDIR)/pkgconfig
	install -m 644 $(HEADERS) $(DESTDIR)$(PREFIX)/include/trireme
	install -m 644 $(LIB_A) $(DESTDIR)$(LIBDIR)
	install -m 755 $(LIB_SO) $(DESTDIR)$(LIBDIR)
	ln -sf $(notdir $(LIB_SO)) $(DESTDIR)$(LIBDIR)/libtrireme.so
	$(if $(CLI_SRC),install -m 755 $(BIN) $(DESTDIR)$(PREFIX)/bin)
	$(if $(CLI_SRC),install -m 644 $(OUT)/trireme.1 $(DESTDIR)$(PREFIX)/share/man/man1)
	$(call pc_file,$(PREFIX),$(LIBDIR)) >$(DESTDIR)$(LIBDIR)/pkgconfig/trireme.pc

## clean: remove what was built
.PHONY: clean
clean:
	rm -rf $(OUT)

## help: this list
.PHONY: help
help:
	@sed -n 's/^## \([a-z]*\): \(.*\)/  \1\t\2/p' Makefile | expand -t 14

-include $(shell find $(OUT)/obj $(OUT)/headers -name '*.d' 2>/dev/null)
