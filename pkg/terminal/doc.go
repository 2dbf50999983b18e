// Package terminal is a shell in a container for a page of a browser, and the files of a container. A shell is a WebSocket on the side
// of the client, and kube-apiserver's exec on the other, or attach where the container itself is the shell, as on nodes.
//
// A Session carries the frames of the console's protocol (JSON in text messages) to the process and back. It stores nothing: a client
// that does not read stops the reading of the process's output, and a process that does not read stops the reading of the client. It ends
// with the process, the client, the right, or a limit of time, and tells the client which by a close code.
//
// Files are written and read by tar in the container: an Upload is stored whole before it is sent, a Download is sent while it is packed.
//
// An Executor runs the command as the caller. A Limiter bounds how many sessions there are.
package terminal
