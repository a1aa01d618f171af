@echo off
rem Builds {target} from this folder alone, without a network. Where there is no Python {python},
rem it unpacks and uses the one in python, which has to stay there then.
setlocal
set "PWD=%CD%"
pushd "%~dp0toolkit"
set PIP_NO_INDEX=1
set PIP_FIND_LINKS=..\tools
set UV_OFFLINE=1
set UV_FIND_LINKS=..\tools
if not defined PYTHON py -{python} -c "" >nul 2>&1 && set PYTHON=py -{python}
if not defined PYTHON if not exist .python\python\python.exe (
    if not exist ..\python\*.tar.gz (
        echo error: this bundle has no Python: install Python {python}, or set PYTHON=PATH 1>&2
        exit /b 3
    )
    mkdir .python 2>nul
    for %%A in (..\python\*.tar.gz) do tar xzf "%%A" -C .python
)
if not defined PYTHON set PYTHON="%CD%\.python\python\python.exe"
%PYTHON% -I provision\commands\bundle_check.py ..
if errorlevel 1 exit /b 3
%PYTHON% noxfile.py -s build-{target} -- --offline --wheelhouse ..\artifacts %*
