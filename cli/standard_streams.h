#pragma once
// The descriptors 0 to 2 and the signals that would end the program in silence.

namespace warptune {

/// Opens the null device for each of stdin, stdout and stderr that is closed: the next file to be opened
/// would get its number, and what is printed would land in that file. Ignores SIGPIPE and SIGXFSZ: writing
/// then fails with an error that names the file. Call it first.
void open_standard_streams();

/// Whether stdout is a pipe that nobody reads any more, as after `| head`.
bool stdout_is_unread();

/// Flushes stdout. Throws std::system_error if anything printed was lost.
void flush_stdout();

}  // namespace warptune
