package config

import "time"

// HelmExecutor is the section helmExecutor: operations on the Helm releases of extensions, each in a process of its own.
type HelmExecutor struct {
	// Timeout ends an operation; 10m. Hooks get nine tenths of it, so that a rollback has the rest.
	Timeout Duration `json:"timeout"`
	// HistoryMax is how many revisions of a release are kept; 5.
	HistoryMax int `json:"historyMax"`

	// Operations ran in Jobs of this image.
	Image               any `json:"image" config:"unread"`
	JobTTLAfterFinished any `json:"jobTTLAfterFinished" config:"unread"`
	Resources           any `json:"resources" config:"unread"`
	Affinity            any `json:"affinity" config:"unread"`
}

func (h HelmExecutor) check(fault func(format string, args ...any)) {
	if h.Timeout < Duration(10*time.Second) || h.Timeout > Duration(time.Hour) {
		fault("helmExecutor.timeout: %v is not between 10s and 1h", time.Duration(h.Timeout))
	}
	if h.HistoryMax < 1 || h.HistoryMax > 100 {
		fault("helmExecutor.historyMax: %d is not between 1 and 100", h.HistoryMax)
	}
}
