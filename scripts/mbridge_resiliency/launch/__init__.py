# SPDX-License-Identifier: Apache-2.0
"""A job as data, read from the files that start it, and the rules over it.

read/ turns files into a model.Job and knows no rule; rules/ turns a Job into findings and reads no file;
check.py joins the two; page.py writes the reference page from the rules.
"""
