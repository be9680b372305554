#!/usr/bin/env bash
# audit-packages.sh: known vulnerabilities of the installed packages. Statuses are those of audit.sh.
# AUDIT_COMMAND replaces pip-audit, for tests.
set -uo pipefail
read -ra command <<<"${AUDIT_COMMAND:-python -m pip_audit}"

echo "pip-audit: known vulnerabilities of the installed packages"
if ! "${command[@]}" --version >/dev/null 2>&1; then
    echo "  not checked: pip-audit is not installed. Install it: .venv/bin/pip install pip-audit" >&2
    exit 2
fi
report=$(timeout 120 "${command[@]}" --skip-editable --progress-spinner off 2>&1)
audited=$?
unknown=$(grep -c 'could not be audited' <<<"$report")
grep -v 'could not be audited' <<<"$report"
if grep -qE '^Found [0-9]+ known vulnerabilit' <<<"$report"; then
    echo "  raise the versions above in pyproject.toml to those that fix them" >&2
    exit 1
fi
if ((audited != 0)) || ! grep -q '^No known vulnerabilities' <<<"$report"; then
    echo "  not checked: pip-audit got no answer from its database (status $audited). Run" \
        "\`make audit\` where https://pypi.org answers; HTTPS_PROXY names a proxy" >&2
    exit 2
fi
if ((unknown > 0)); then
    grep 'could not be audited' <<<"$report" | head -n 5
    echo "  not checked: the database has no answer for $unknown packages. Run \`make audit\` where" \
        "https://pypi.org answers; look local builds (+cpu) up at https://osv.dev" >&2
    exit 2
fi
