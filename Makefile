# Thin on purpose: every recipe only calls tools. What the distribution has to provide is installed by
# scripts/setup.

CARGO ?= cargo
INSTALL ?= install
DESTDIR ?=
prefix ?= /usr/local
bindir ?= $(prefix)/bin
mandir ?= $(prefix)/share/man
bashdir ?= $(prefix)/share/bash-completion/completions
zshdir ?= $(prefix)/share/zsh/site-functions
fishdir ?= $(prefix)/share/fish/vendor_completions.d
target = $(or $(CARGO_TARGET_DIR),target)

.PHONY: all setup build demo test soak trials chaos compat bench lint install deb clean

all: build

setup:
	scripts/setup

build: setup
	$(CARGO) build --release --locked

demo: setup
	$(CARGO) build --locked
	scripts/demo $(target)/debug/redlock

test: setup
	CARGO=$(CARGO) scripts/test

# The simulator, with other histories each time, until ^C or the first broken rule.
soak: setup
	CARGO=$(CARGO) scripts/sim soak

# The simultaneous starts as often as the promise says: 200 times 50, 20 times 200.
trials: setup
	REDLOCK_TEST_TRIALS=20 CARGO=$(CARGO) scripts/test --release --test main simultaneous_ -- --nocapture

# A minute of faults, with figures at the end; an hour: REDLOCK_CHAOS_SECONDS=3600 make chaos. A failure
# prints its seed: REDLOCK_CHAOS_SEED=... repeats what was decided by it.
chaos: setup
	$(CARGO) build --locked --examples
	REDLOCK_CHAOS_SECONDS=$${REDLOCK_CHAOS_SECONDS:-60} CARGO=$(CARGO) \
		scripts/test --test main chaos:: -- --nocapture

# The core of the tests on Redis 6.2 and 8.2, Valkey 8.1 and 9.1, which scripts/servers fetches, and on the
# server that is installed.
compat:
	scripts/setup compat
	CARGO=$(CARGO) scripts/compat

bench: setup
	$(CARGO) build --release --locked --bin redlock --example floor
	$(CARGO) bench --locked --bench whole
	$(CARGO) bench --locked --bench latency
	$(CARGO) bench --locked --bench handover
	$(CARGO) bench --locked --bench census

lint:
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps

# Builds only when there is nothing to install, so that `sudo make install` needs no cargo.
install: $(target)/release/redlock
	$(INSTALL) -D -m 755 $< $(DESTDIR)$(bindir)/redlock
	$(INSTALL) -D -m 644 -t $(DESTDIR)$(mandir)/man1 man/*.1
	$(INSTALL) -D -m 644 completions/redlock.bash $(DESTDIR)$(bashdir)/redlock
	$(INSTALL) -D -m 644 -t $(DESTDIR)$(zshdir) completions/_redlock
	$(INSTALL) -D -m 644 -t $(DESTDIR)$(fishdir) completions/redlock.fish

$(target)/release/redlock:
	$(MAKE) build

# A Debian package, and a look into a scratch root that it was installed in.
deb: setup
	CARGO=$(CARGO) scripts/deb

clean:
	$(CARGO) clean
