# SPDX-License-Identifier: Apache-2.0
"""Where upstream source comes from, and whether the facts hold there.

sources     packages as text: installed, checkout or git revision, wheel; nothing is imported
wheels      wheels of named releases, cached, downloaded on demand
syntax      one file's symbols, messages, environment variables and exits, from its syntax tree
patterns    code patterns ("this statement stands in that function")
symbols     names across files and packages: inherited fields, constants; the cache
parsers     the options of a command line, from the calls that build its parser
messages    whether a quoted message stands in a file's format strings
answers     what a verifier is given, and what it answers
kinds       one verifier a kind of fact
verify      facts against a release: verdicts
compare     what changed between two releases
matrix      the releases that are verified, and the result as data
guides      which pages rest on a fact; where facts stand in the source
command     check_upstream.py
"""
