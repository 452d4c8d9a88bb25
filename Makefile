# The thin front door: every target is one call of xtask, the repository's only automation (`cargo xtask --help`).
# ARGS is handed on, for example `make up ARGS=--help`.

# Checkouts of one person may share what cargo builds: make that folder once and it is used.
SHARED_TARGET := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/novox-mesh/target
ifndef CARGO_TARGET_DIR
ifneq ($(wildcard $(SHARED_TARGET)),)
export CARGO_TARGET_DIR := $(SHARED_TARGET)
endif
endif

XTASK := cargo xtask

.PHONY: help build package image up down test check check-long bench fuzz setup fmt advisories compiler

help:
	@echo 'make up          raise a mesh of three real nodes on this machine (as root)'
	@echo 'make down        take it down, leave nothing behind'
	@echo 'make check       everything CI runs'
	@echo 'make test        the tests that need no lab'
	@echo 'make build       static programs into dist/'
	@echo 'make package     the Debian package of the host into dist/, after build'
	@echo 'make image       the bundle a host carries, and the images of the lab'
	@echo 'make bench       measure: a table and JSON'
	@echo 'make fuzz        feed what reads foreign bytes with bytes that nobody wrote'
	@echo 'make check-long  what is too long for check'
	@echo 'make advisories  known vulnerabilities in what we depend on'
	@echo 'make setup       install the Debian packages that are missing'
	@echo 'make fmt         format the sources'

build package up down test bench check check-long setup fuzz advisories: compiler
	@$(XTASK) $@ $(ARGS)

image: compiler
	@$(XTASK) bundle $(ARGS)
	@$(XTASK) bundle nodes

fmt:
	@cargo fmt --all

# cargo cannot link without a C compiler, so this one package cannot be installed by xtask.
compiler:
	@command -v cargo >/dev/null || { echo 'error: there is no cargo: install Rust first (rust-toolchain.toml names the version)'; exit 1; }
	@command -v cc >/dev/null || { echo 'missing: gcc, libc6-dev (cargo links with them)'; apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends gcc libc6-dev; }
