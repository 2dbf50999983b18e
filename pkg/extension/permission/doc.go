// Package permission says what the installation of an extension may do: what its chart asks for, which somebody has to approve, and the
// part of it that one operation gets.
//
// A chart is somebody else's program. What it asks for in permissions.yaml is a bound, and not what the installer holds: an operation gets
// the verbs on the objects that it writes, by their names, as far as the bound covers them, and only while it runs.
package permission
