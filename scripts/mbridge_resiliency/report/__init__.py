# SPDX-License-Identifier: Apache-2.0
"""From findings and verdicts to text, JSON, SARIF and GitHub annotations."""
