# Thin on purpose: every recipe only calls tools. What the distribution has to provide is installed by
# scripts/setup.

CARGO ?= cargo
INSTALL ?= install
DESTDIR ?=
prefix ?= /usr/local
bindir ?= $(prefix)/bin
target = $(or $(CARGO_TARGET_DIR),target)

.PHONY: all setup build demo test bench lint install clean

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

bench: setup
	$(CARGO) build --release --locked --bin redlock --example floor
	$(CARGO) bench --locked --bench whole
	$(CARGO) bench --locked --bench latency

lint:
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps

# Builds only when there is nothing to install, so that `sudo make install` needs no cargo.
install: $(target)/release/redlock
	$(INSTALL) -D -m 755 $< $(DESTDIR)$(bindir)/redlock

$(target)/release/redlock:
	$(MAKE) build

clean:
	$(CARGO) clean
