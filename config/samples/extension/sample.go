// Package sample has an extension that is written by hand: what `kubectl ks extension create` begins with.
package sample

import "embed"

// Name is the name of the sample, which a new extension replaces by its own.
const Name = "greeter"

// Files are its files, in a folder of its name.
//
//go:embed all:greeter
var Files embed.FS
