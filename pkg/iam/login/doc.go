// Package login authenticates users: by password, identity provider and second factor. Package lockout counts the failures.
package login
