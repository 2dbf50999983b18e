// Package installplan installs, upgrades and removes extensions as their InstallPlans say.
//
// A plan is done in steps: the version and its chart, the approval of what the chart may do, the extensions that it needs, its values and
// its namespace. Then the chart is rendered, and one operation applies it, with the rights that its objects need, as a user of its own
// (package permission). What an operation was asked for is noted with the plan once it has ended: as long as a plan asks for the same,
// nothing is done, and nothing written. An operation that was interrupted has not been noted and is done again, which Helm's records make
// safe (package helm).
package installplan
