@echo off
rem Builds {target} from this folder alone, without a network. Where there is no Python {python},
rem it unpacks and uses the one in python, which has to stay there then.
setlocal
pushd "%~dp0toolkit"
set PIP_NO_INDEX=1
set PIP_FIND_LINKS=..\tools
set UV_OFFLINE=1
set UV_FIND_LINKS=..\tools
if not defined PYTHON py -{python} -c "" >nul 2>&1 && set PYTHON=py -{python}
if not defined PYTHON if not exist .python\python\python.exe (
    mkdir .python 2>nul
    for %%A in (..\python\*.tar.gz) do tar xzf "%%A" -C .python
)
if not defined PYTHON set PYTHON="%CD%\.python\python\python.exe"
%PYTHON% noxfile.py -s build-{target} -- --offline --wheelhouse ..\artifacts %*
