# Before each job of GitHub's self-hosted runner on Windows: fail the job on a machine that is not fit, and say in its log why.
# Lines in the file `.env` of the runner, with the absolute path of this file:
#     ACTIONS_RUNNER_HOOK_JOB_STARTED=C:\provision\toolkit\fleet\runner\job-started.ps1
#     PROVISION_TARGET=arc-windows
# job_started.py beside this file does the work, and lists the other variables.
# The runner takes pwsh, or else Windows PowerShell 5.1: this is for both, and ASCII, as 5.1 reads it.
$ErrorActionPreference = 'Continue'
$python = Join-Path (Split-Path (Split-Path $PSScriptRoot)) '.tools\Scripts\python.exe'
$global:LASTEXITCODE = -1 # stays where there is no Python
& $python -I (Join-Path $PSScriptRoot 'job_started.py')
if ($LASTEXITCODE -eq 3) { exit 1 }
if ($LASTEXITCODE -ne 0) {
    "::warning title=provision gate::no verdict on this machine: $python ended with $LASTEXITCODE"
    if ($env:PROVISION_NO_VERDICT -eq 'fail') { exit 1 }
}
exit 0
