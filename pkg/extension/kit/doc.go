// Package kit is what writers of extensions do on their machine: begin a new one, see what the server would say of its chart, pack it,
// bring it to an installation, and try its page and its backend there while they change.
package kit
