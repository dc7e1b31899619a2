"""Programs and options that always ask, because what they do is not in their name.

Owns these tables. They are for plain commands that a rule allows: a rule about ``git`` is not meant
for ``git -c core.pager=…``. No such list is complete; it is why a rule should be narrow.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

__all__ = ["SHELLS", "program_name", "risk"]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


SHELLS = _names(
    """
    ash bash csh dash elvish fish ksh mksh nu oksh pwsh rbash sh tcsh xonsh yash zsh
    """
)
_INTERPRETERS = _names(
    """
    bun deno elixir erl escript expect gjs groovy guile iex irb jshell julia lua luajit node nodejs
    osascript perl php pypy python pythonw qjs racket rscript ruby runghc scala swift tclsh ts-node
    tsx wish
    """
)
_RUNS_OTHERS = _names(
    """
    arch at atrm batch busybox catchsegv chroot chrt cpulimit crontab daemonize dbus-run-session
    doas emacs entr env faketime fakeroot firejail flock gdb gdbserver hyperfine ionice launchctl
    lldb ltrace nice nohup nsenter numactl open parallel perf pkexec prlimit proot proxychains
    rlwrap run-parts run0 runcon runuser screen script setarch setpriv setsid sg ssh sshpass
    start-stop-daemon stdbuf strace su sudo sudoedit systemd-run taskset time timeout tmux torify
    toybox tsocks unbuffer unshare valgrind watch xargs xdg-open xvfb-run
    """
)
_OF_THE_SHELL = _names(
    """
    . alias bind builtin command compgen complete compopt coproc declare disown enable eval exec
    export fc getopts hash history let local mapfile read readarray readonly set shopt source trap
    typeset unalias unset
    """
)
_WITH_COMMANDS_INSIDE = _names(
    """
    awk bc dc ed emacsclient ex ftp gawk gnuplot info jed less lftp m4 man mawk more most mysql nano
    nawk ncat nc netcat nvim octave original-awk pg pico psql rview rvim scp sftp socat sqlite
    sqlite3 tcpdump telnet vi view vim vimdiff vimtutor w3m zless zmore
    """
)
_NAMED_WITH_DIGITS = _names("bzip2 m4 p4 run0 sqlite3")
_HARMLESS = _names("--help --version -h -v -V")
_SAFE_OPTIONS = {
    "python": frozenset(["-m", "-u", "-B", "-I", "-E", "-s", "-S", "-O", "-OO", "-b", "-q", "-VV"]),
    "pypy": frozenset(["-m", "-u", "-B", "-I", "-E", "-s", "-S", "-O", "-OO"]),
    "node": frozenset({"--test", "--check"}),
}
_MODULES_THAT_RUN_TEXT = _names(
    """
    IPython bdb bpython cProfile code codeop debugpy doctest idlelib ipdb pdb profile ptpython pudb
    runpy timeit trace xonsh
    """
)
_NO_SCRIPT = re.compile(r"-|/dev/(?:stdin|fd/.*)|/proc/.*")


class _Options(Struct, frozen=True):
    """Options of a program that run something or write somewhere."""

    short: str = ""
    """Letters; wherever they are among others in a word with one dash."""
    long: tuple[str, ...] = ()
    """Without dashes; any abbreviation counts."""
    words: tuple[str, ...] = ()
    """Whole words, such as actions of find; also with ``=`` and a value."""
    commands: tuple[str, ...] = ()
    """The first word without a dash."""
    bare_first: bool = False
    """The first word has options without a dash."""
    inside: str = ""
    """A pattern that may be in no word."""
    operands: int | None = None
    """How many words without a dash it reads, numbers aside; it writes to the next."""

    def first_in(self, arguments: Sequence[str]) -> str:
        """The first of ``arguments`` that is such an option; empty: none."""
        inside = re.compile(self.inside) if self.inside else None
        command, operands = True, 0
        for index, word in enumerate(arguments):
            is_operand = not word.startswith("-") or word == "-"
            operands += is_operand and not word.isdecimal()
            if self.operands is not None and operands > self.operands:
                return word
            if is_operand and command and word in self.commands:
                return word
            command = command and not is_operand
            if is_operand and not (self.words or inside or (self.bare_first and index == 0)):
                continue
            name = word.partition("=")[0]
            if name in self.words or (inside is not None and inside.search(word)):
                return word
            if word.startswith("--"):
                asked = name[2:]
                if asked and any(each.startswith(asked) for each in self.long):
                    return word
            elif (not is_operand or (self.bare_first and index == 0)) and (
                name[1:] in self.long  # some programs take long options with one dash
                or any(letter in self.short for letter in word)
            ):
                return word
        return ""


_GIT_COMMANDS = _names(
    """
    archimport bisect bugreport bundle config credential cvsexportcommit cvsimport cvsserver daemon
    diagnose difftool fast-import filter-branch filter-repo for-each-repo gui help hook http-backend
    http-fetch http-push imap-send instaweb mailinfo mailsplit maintenance merge-file merge-index
    mergetool p4 pack-objects quiltimport request-pull send-email shell sh-i18n submodule svn
    upload-archive upload-pack var worktree
    """
)
_GIT_INTERNAL = re.compile(r".*--|credential-|remote-")
"""Helpers of commands, some of which run what they are given."""
_ELSEWHERE = r"^/|(?:^|/)\.\.(?:/|$)"
_GIT_READS_CONFIG = _names("--get --get-all --get-regexp --list -l get list")
_GIT_OPTIONS = _Options(
    long=(
        "upload-pack", "receive-pack", "exec", "output", "output-directory", "template", "config",
        "ext-diff", "textconv", "open-files-in-pager", "separate-git-dir", "git-dir", "editor",
        "strategy", "gpg-sign", "remote", "no-index", "contents", "unsafe-paths", "export-marks",
        "index-output", "build-fake-ancestor", "object-dir",
    ),
    inside=r"^[A-Za-z0-9+.-]+::",
)  # fmt: skip
_GIT_SHORT = {
    "archive": _Options(short="o"),
    "checkout-index": _Options(long=("prefix",)),
    "clone": _Options(short="cu", inside=_ELSEWHERE),
    "fetch-pack": _Options(short="u"),
    "format-patch": _Options(short="o"),
    "grep": _Options(short="O"),
    "index-pack": _Options(short="o"),
    "init": _Options(short="c", inside=_ELSEWHERE),
    "init-db": _Options(inside=_ELSEWHERE),
    "ls-remote": _Options(short="u"),
    "rebase": _Options(short="xi"),
}
_COMPILER = _Options(
    short="B",
    long=("wrapper", "specs", "plugin"),
    inside=r"^@|^-fplugin|^-specs|^-load|^-Xclang|^-wrapper|^-fpass-plugin",
)
_OPTIONS: dict[str, _Options] = {
    "ack": _Options(long=("pager", "ackrc")),
    "ag": _Options(long=("pager",)),
    "bat": _Options(long=("pager",)),
    "batcat": _Options(long=("pager",)),
    "bsdtar": _Options(short="I", long=("use-compress-program",), bare_first=True),
    "bzip2": _Options(),
    "cargo": _Options(
        short="CZ", long=("config", "manifest-path", "target-dir", "out-dir", "artifact-dir")
    ),
    "cc": _COMPILER,
    "clang": _COMPILER,
    "clang++": _COMPILER,
    "cmake": _Options(inside=r"^-[CEP]"),
    "cpio": _Options(short="FO", long=("rsh-command", "to-stdout", "file"), inside=":"),
    "csplit": _Options(short="f", long=("prefix",)),
    "curl": _Options(
        short="oOKJcDT",
        long=(
            "output", "output-dir", "remote-name", "remote-name-all", "config", "cookie-jar",
            "dump-header", "trace", "trace-ascii", "stderr", "libcurl", "upload-file", "engine",
            "hsts", "alt-svc", "etag-save", "create-dirs", "proto-default",
        ),
        # Addresses of files have more spellings than can be looked up; %output{} writes one.
        inside=r"^(?!https?:)[\w\[\]{},-]*:/|%output\{",
    ),
    "date": _Options(short="s", long=("set",)),
    "delta": _Options(long=("pager",)),
    "eslint": _Options(
        short="co", long=("config", "rulesdir", "plugin", "output-file", "parser", "format"),
    ),
    "fd": _Options(short="xX", long=("exec", "exec-batch")),
    "fdfind": _Options(short="xX", long=("exec", "exec-batch")),
    "file": _Options(short="C", long=("compile",)),
    "find": _Options(
        words=(
            "-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf",
            "-fls", "-files0-from",
        )
    ),
    "g++": _COMPILER,
    "gcc": _COMPILER,
    "gh": _Options(commands=("alias", "extension", "extensions", "ext", "config")),
    "go": _Options(
        long=("exec", "toolexec", "vettool", "overlay", "modfile", "gccgoflags"),
        words=("-w", "-C"),
        inside="-extld|-extar",
        commands=("generate",),
    ),
    "gpg": _Options(short="o", long=("output", "photo-viewer", "agent-program", "homedir")),
    "hg": _Options(short="R", long=("config", "repository", "cwd"), commands=("extdiff",)),
    "iconv": _Options(short="o", long=("output",)),
    "jest": _Options(short="c", long=("config", "runner", "testrunner", "globalsetup")),
    "make": _Options(
        short="fCIE", long=("eval", "file", "makefile", "directory", "include-dir"), inside="="
    ),
    "gmake": _Options(
        short="fCIE", long=("eval", "file", "makefile", "directory", "include-dir"), inside="="
    ),
    "mypy": _Options(
        long=(
            "python-executable", "config-file", "cache-dir", "junit-xml", "any-exprs-report",
            "cobertura-xml-report", "html-report", "linecount-report", "linecoverage-report",
            "lineprecision-report", "txt-report", "xml-report", "xslt-html-report",
            "xslt-txt-report", "install-types",
        )
    ),
    "nmap": _Options(inside=r"^-o|^--script|^--datadir|^--interactive"),
    "npm": _Options(
        short="c",
        long=(
            "call", "script-shell", "prefix", "node-options", "shell", "userconfig",
            "globalconfig", "editor", "viewer", "git",
        ),
        commands=("exec", "x", "config", "set", "explore", "edit"),
    ),
    "npx": _Options(short="c", long=("call", "node-options", "shell", "script-shell")),
    "openssl": _Options(words=("-out", "-engine", "-provider", "-writerand"), commands=("engine",)),
    "patch": _Options(short="eo", long=("ed", "output", "get")),
    "pip": _Options(
        long=("index-url", "extra-index-url", "config-settings", "python"), commands=("config",)
    ),
    "prettier": _Options(long=("plugin", "plugin-search-dir", "config")),
    "printf": _Options(short="v"),
    "ps": _Options(short="E", inside=r"^[A-Za-z]*e[A-Za-z]*$"),  # the environment of processes
    "pytest": _Options(
        short="pco",
        long=(
            "override-ini", "rootdir", "confcutdir", "pdbcls", "basetemp", "config-file",
            "junitxml", "junit-xml", "log-file", "pastebin",
        ),
    ),
    "rg": _Options(long=("pre", "hostname-bin")),
    "rsync": _Options(
        short="eM", long=("rsh", "rsync-path", "remote-option", "daemon"), inside=":"
    ),
    "ruff": _Options(short="o", long=("output-file", "cache-dir")),
    "sdiff": _Options(short="o", long=("output",)),
    "shuf": _Options(short="o", long=("output",)),
    "sort": _Options(
        short="oT", long=("output", "compress-program", "temporary-directory", "files0-from")
    ),
    "split": _Options(long=("filter",)),
    "svn": _Options(long=("config-option", "config-dir", "diff-cmd", "diff3-cmd", "editor-cmd")),
    "tar": _Options(
        short="IFPC",
        long=(
            "to-command", "checkpoint-action", "use-compress-program", "info-script",
            "new-volume-script", "rsh-command", "rmt-command", "absolute-names",
            "index-file", "volno-file", "directory", "one-top-level",
        ),
        bare_first=True,
        inside=":",  # another machine, reached with a program
    ),
    "test": _Options(words=("-v", "-R")),
    "tree": _Options(short="oR", long=("output",)),
    "tsc": _Options(long=("project", "outdir", "outfile", "build"), short="p"),
    "uniq": _Options(operands=1),
    "wait": _Options(short="p"),
    "jobs": _Options(short="x"),
    "wget": _Options(
        short="eOPoai",
        long=(
            "execute", "output-document", "directory-prefix", "output-file", "append-output",
            "use-askpass", "config", "input-file", "post-file", "body-file", "save-cookies",
            "warc-file", "rejected-log", "hsts-file",
        ),
    ),
    "xxd": _Options(operands=1),
    "zip": _Options(short="T", long=("unzip-command", "test")),
}  # fmt: skip
_OPTIONS["gtar"] = _OPTIONS["tar"]
_OPTIONS["gfind"] = _OPTIONS["find"]

_PLAIN_SED = re.compile(
    r"(?:-n|-E|-r|-nE|-En|-nr|-s|-u|-z)"
    r"|(?:(?:\d+|\$)(?:,(?:\d+|\$))?)?[pdq=]"
    r"|s([/|,#])(?:(?!\1)[^\\\n]|\\[^\n])*\1(?:(?!\1)[^\\\n]|\\[^\n])*\1[gIip0-9]*"
)
_VERSION = re.compile(r"(?<=[a-z])[\d.]+\Z")


@lru_cache(maxsize=1024)
def program_name(word: str) -> str:
    """The plain name of the program that ``word`` calls, whatever its folder, case and version."""
    name = word.rpartition("/")[2].casefold().removesuffix(".exe")
    return name if name in _NAMED_WITH_DIGITS else _VERSION.sub("", name)


@lru_cache(maxsize=4096)
def risk(words: tuple[str, ...]) -> str:
    """Why the simple command ``words`` always asks; empty: rules may decide about it."""
    program, arguments = program_name(words[0]), words[1:]
    if program in _RUNS_OTHERS or program.startswith(("ld-linux", "ld.so", "ld-musl")):
        return f"`{program}` runs other programs"
    if program in _OF_THE_SHELL:
        return f"`{program}` changes what commands mean, or runs others"
    if program in _WITH_COMMANDS_INSIDE:
        return f"`{program}` can be told to run commands"
    if program in SHELLS or program in _INTERPRETERS:
        return _interpreting(program, arguments)
    if program == "git":
        return _git(arguments)
    if program in {"cd", "pushd", "popd"}:
        return _moving(program, arguments)
    if program in {"sed", "gsed"}:
        return _sed(arguments)
    options = _OPTIONS.get(program)
    found = options.first_in(arguments) if options else ""
    return f"`{program} {found}` can run other programs or write elsewhere" if found else ""


def _interpreting(program: str, arguments: Sequence[str]) -> str:
    """A script in a file is a program like others; what is in words or comes in is not."""
    safe = _SAFE_OPTIONS.get(program, frozenset())
    for index, word in enumerate(arguments):
        if word in _HARMLESS:
            return "" if len(arguments) == 1 else f"`{program}` with more than `{word}`"
        if word in safe:
            if word != "-m":
                continue
            module = "".join(arguments[index + 1 : index + 2])
            risky = module.partition(".")[0] in _MODULES_THAT_RUN_TEXT
            return (
                f"`{program} -m {module}` can run what is written in the command" if risky else ""
            )
        if _NO_SCRIPT.fullmatch(word):
            break
        if word.startswith(("-", "+")):
            return f"`{program} {word}` can run what is written in the command"
        return ""
    return f"`{program}` runs what it reads from its input"


def _moving(program: str, arguments: Sequence[str]) -> str:
    """Words behind it are judged where it leads, so that has to be known."""
    named = [word for word in arguments if not re.fullmatch(r"-.*|\+\d+", word)]
    return "" if named else f"`{program}` without a folder leads where only the shell knows"


def _git(arguments: Sequence[str]) -> str:
    first = next((i for i, word in enumerate(arguments) if not word.startswith("-")), None)
    before = arguments[: first if first is not None else len(arguments)]
    harmless = {"--no-pager", "--version", "--help", "-P", "--no-optional-locks"}
    for word in before:
        if word not in harmless:
            return f"`git {word}` can make git run other programs"
    if first is None:
        return ""
    command, rest = arguments[first], arguments[first + 1 :]
    if command == "config" and rest and rest[0] in _GIT_READS_CONFIG:
        return ""
    if command in _GIT_COMMANDS or _GIT_INTERNAL.match(command):
        return f"`git {command}` can make git run other programs"
    found = _GIT_OPTIONS.first_in(rest) or _GIT_SHORT.get(command, _Options()).first_in(rest)
    return f"`git {command} {found}` can run other programs or write elsewhere" if found else ""


def _sed(arguments: Sequence[str]) -> str:
    """Only scripts that print, delete and replace are known to do nothing else."""
    scripts = [word for word in arguments if word.startswith("-")]
    script = next((word for word in arguments if not word.startswith("-")), "")
    for word in [*scripts, script]:
        if not _PLAIN_SED.fullmatch(word):
            return f"`sed {word}` can run commands or write files"
    return ""
