// Package fleet has the end-to-end tests of a hub with two members, one that it dials and one that dials it: three real control planes.
package fleet
