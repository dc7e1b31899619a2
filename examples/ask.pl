#!/usr/bin/env perl
# Asks pi-rpc once, from a terminal: a client as protocol.md describes it, with Perl's core modules alone.
#
#   perl ask.pl [--yes | --no] [--model PROVIDER/ID] PROMPT...
#
# The answer goes to stdout, all else to stderr. A tool that needs permission is asked about; --yes allows it
# once, --no rejects it. Ctrl-C cancels the prompt, a second one ends at once. PI_RPC may name the command.
# Exit codes: 0 answered, 1 failed, 2 usage, 130 interrupted, 141 nobody reads the answer.

use v5.14;
use warnings;
use Cwd qw(getcwd);
use Getopt::Long qw(GetOptions);
use IO::Handle;
use IO::Select;
use JSON::PP;
use POSIX ();

binmode $_, ':encoding(UTF-8)' for \*STDIN, \*STDOUT, \*STDERR;
$_->autoflush for \*STDOUT, \*STDERR;
utf8::decode($_) for @ARGV, my $cwd = getcwd();
my %option;
if (!GetOptions(\%option, 'yes', 'no', 'model=s') || !@ARGV || $option{yes} && $option{no}) {
    print STDERR "usage: ask.pl [--yes | --no] [--model PROVIDER/ID] PROMPT...\n";
    exit 2;
}

my $wire = JSON::PP->new->utf8;                   # JSON as bytes
my ($daemon, $to_daemon, $from_daemon, $received) = (0, undef, undef, '');
my ($requests, %answers) = (0);                   # answers by the id of their request
my $prompt;                                       # the id of the prompt while it waits
my @questions;                                    # those that wait for the person; the first is on the screen
my $mid_line = 0;                                 # the answer on stdout has not ended its line
my ($interrupts, $heeded) = (0, 0);
$SIG{INT} = sub { $interrupts++ };                # no more here: a message may be half written
$SIG{PIPE} = 'IGNORE';                            # the end of the daemon's output tells that it is dead

start_daemon($ENV{PI_RPC} // 'pi-rpc', '--stdio');
await(request(initialize => {
    clientInfo => {name => 'ask.pl'},
    cwd => $cwd,
    capabilities => {permission => JSON::PP::true},
    initializationOptions => {session => {$option{model} ? (model => $option{model}) : ()}},
}));
$prompt = request(prompt => {message => "@ARGV"});
my $result = await($prompt);
undef $prompt;
await(request('shutdown'));
notify('exit');
$SIG{INT} = 'DEFAULT';
1 while sysread $from_daemon, my $rest, 65536;    # it may have had something to say
waitpid $daemon, 0;
note('pi-rpc ended with ' . ending()) if $?;

my $reason = $result->{stopReason} // 'stop';     # a command of an extension (`/name`) has none
note(join ': ', $reason, $result->{errorMessage} // ()) if $reason =~ /^(?:error|limit|length|aborted)$/;
end_line();
exit($reason eq 'aborted' ? 130 : $reason =~ /^(?:error|limit)$/ ? 1 : 0);

# --- The daemon ---

sub start_daemon {
    my @command = @_;
    pipe(my $its_input, $to_daemon) && pipe($from_daemon, my $its_output) or die "no pipe: $!\n";
    $daemon = fork // die "no process: $!\n";
    if (!$daemon) {
        POSIX::setsid();    # Ctrl-C goes to all processes of the terminal's group, and would end it too
        open STDIN, '<&', $its_input;
        open STDOUT, '>&', $its_output;
        { no warnings 'exec'; exec {$command[0]} @command }
        print STDERR "cannot start $command[0]: $!\n";
        POSIX::_exit(127);
    }
    $to_daemon->autoflush;
}

sub send_message { print $to_daemon $wire->encode({jsonrpc => '2.0', @_}), "\n" }

sub notify {
    my ($method, $params) = @_;
    send_message(method => $method, params => $params // {});
}

sub request {
    my ($method, $params) = @_;
    my $id = 'r' . ++$requests;    # a text, since Perl may make one of a number on the way
    send_message(id => $id, method => $method, params => $params // {});
    return $id;
}

# Returns the result of a request; an error ends the program.
sub await {
    my ($id) = @_;
    step() until $answers{$id};
    my $answer = delete $answers{$id};
    hang_up(1, $answer->{error}{message}) if $answer->{error};
    return $answer->{result};
}

# Waits for what comes next, and sees to it.
sub step {
    # Half a second at most, because a Ctrl-C right before the wait would not end it.
    my @ready = IO::Select->new($from_daemon, @questions ? \*STDIN : ())->can_read(0.5);
    heed_interrupts();
    for my $handle (@ready) {
        if ($handle == $from_daemon) { read_daemon() }
        elsif (@questions)           { read_person() }
    }
}

sub read_daemon {
    my $count = sysread $from_daemon, $received, 65536, length $received;
    return if !defined $count && $!{EINTR};
    if (!$count) {
        waitpid $daemon, 0;
        note('pi-rpc ended before it had answered, with ' . ending());
        exit 1;
    }
    while ($received =~ s/^(.*)\n//) {
        my $message = eval { $wire->decode($1) } // hang_up(1, "pi-rpc sent what is no JSON: $@");
        my ($method, $params) = @$message{qw(method params)};
        if    (!defined $method)                { $answers{$message->{id} // ''} = $message }
        elsif ($method eq 'agent/event')        { show($params->{event}) }
        elsif ($method eq 'permission/request') { push @questions, $message; ask() if @questions == 1 }
        elsif ($method eq 'request/resolved')   { drop($params->{requestId}) }
        elsif (exists $message->{id}) {
            send_message(id => $message->{id}, error => {code => -32601, message => 'not supported'});
        }
    }
}

sub show {
    my ($event) = @_;
    my $type = $event->{type};
    if ($type eq 'message_update') {
        my $part = $event->{assistantMessageEvent};
        if    ($part->{type} eq 'text_delta') { answer($part->{delta}) }
        elsif ($part->{type} eq 'text_end')   { end_line() }
    }
    elsif ($type eq 'tool_execution_start') { note("-> $event->{title}") }
    elsif ($type eq 'tool_execution_end') {
        my @words = map { split ' ', $_->{text} // '' } @{$event->{result}{content}};
        note("<- $event->{toolName}" . ($event->{isError} ? ' failed: ' : ': ') . substr("@words", 0, 100));
    }
    elsif ($type eq 'auto_retry_start') { note("again in $event->{delayMs} ms: $event->{errorMessage}") }
    elsif ($type eq 'diagnostic')       { note("$event->{severity}: $event->{message}") }
}

# --- Permission ---

# What the first question offers. A kind that is not known here may mean anything.
sub options {
    my $known = qr/^(?:allow_once|allow_session|allow_always|reject_once|reject_always)$/;
    return grep { $_->{kind} =~ $known } @{$questions[0]{params}{options}};
}

# Puts the first question on the screen.
sub ask {
    my $params = $questions[0]{params};
    my @options = options();
    if ($option{yes} || $option{no}) {
        my ($option) = grep { $_->{kind} eq ($option{yes} ? 'allow_once' : 'reject_once') } @options;
        return reply($option ? (optionId => $option->{id}) : (cancelled => JSON::PP::true));
    }
    POSIX::tcflush(0, POSIX::TCIFLUSH()) if -t STDIN;    # what was typed before is no answer to this
    note("May $params->{toolName} do this? " . ($params->{reason} // ''));
    # The title may be cut. As JSON the arguments are whole, and in one line that they cannot end.
    note('  ' . JSON::PP->new->canonical->encode($params->{args}));
    my $number = 0;
    note('  ' . ++$number . ") $_->{name}" . ($_->{rule} ? ": $_->{rule}" : '')) for @options;
    note('Type a number, and behind that of a rejection a word to the model; nothing rejects this once.');
}

sub read_person {
    my ($number, $feedback) = (<STDIN> // '') =~ /^\s*(\S+)\s*(.*?)\s*$/;
    return reply(cancelled => JSON::PP::true) if !defined $number;    # also when nobody is there
    my @options = options();
    return note("Not one of 1 to @{[scalar @options]}.") if $number !~ /^[1-9]\d?$/ || $number > @options;
    my $option = $options[$number - 1];
    my $told = length $feedback && $option->{kind} =~ /^reject/;
    reply(optionId => $option->{id}, $told ? (feedback => $feedback) : ());
}

sub reply {
    my $question = shift @questions;
    send_message(id => $question->{id}, result => {@_});
    ask() if @questions;
}

# A question has become moot.
sub drop {
    my ($request_id) = @_;
    my $first = $questions[0] // return;
    @questions = grep { $_->{params}{requestId} ne $request_id } @questions;
    return if @questions && $questions[0] == $first;
    note('This is not asked any more.');
    ask() if @questions;
}

# --- The person ---

sub heed_interrupts {
    return if $heeded == $interrupts;
    $heeded = $interrupts;
    hang_up(130) if !$prompt || $interrupts > 1;
    note('cancelling; Ctrl-C once more ends at once');
    notify('$/cancelRequest', {id => $prompt});    # `prompt` is answered all the same, as aborted
}

# The daemon ends when its input does, with all that it has started, and within two seconds.
sub hang_up {
    my ($code, $why) = @_;
    end_line() if $code != 141;
    note($why) if defined $why;
    $SIG{INT} = 'DEFAULT';
    close $_ for $to_daemon, $from_daemon;
    waitpid $daemon, 0;
    exit $code;
}

sub ending { return $? & 127 ? 'signal ' . ($? & 127) : 'exit code ' . ($? >> 8) }

# A model's words may hold escape sequences that rewrite the screen, and the question on it.
sub visible { return $_[0] =~ s/(?![\n\t\x{200d}])([\p{Cc}\p{Cf}])/sprintf '\\x{%x}', ord $1/ger }

sub answer {
    my ($text) = @_;
    return if !length $text;
    print visible($text) or hang_up(141);
    $mid_line = $text !~ /\n\z/;
}

sub end_line { answer("\n") if $mid_line }

sub note {
    my ($line) = @_;
    end_line();
    print STDERR visible($line), "\n";
}
