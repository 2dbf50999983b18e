package apiserver

import (
	"context"
	"regexp"
	"time"

	"kapis.dev/ks-apiserver/pkg/config"
	"kapis.dev/ks-apiserver/pkg/filter"
	"kapis.dev/ks-apiserver/pkg/terminal"
	"kapis.dev/ks-apiserver/pkg/terminal/recording"
	"kapis.dev/ks-apiserver/pkg/webhook"
)

// recordings are those of terminals.
type recordings struct{ *components }

// open opens what terminals are recorded to, if they are.
func (p recordings) open(ctx context.Context) error {
	c := p.cfg.Terminal.Recording
	if c.Mode == config.RecordingOff {
		return nil
	}
	var sink recording.Sink
	var err error
	if c.Folder.Path != "" {
		sink, err = recording.NewFolder(c.Folder.Path, int64(c.Folder.MaxSize), time.Duration(c.Folder.MaxAge), time.Now)
	} else {
		sink, err = recording.NewWebhook(webhook.Endpoint{URL: c.Webhook.URL, CAFile: c.Webhook.CAFile, TokenFile: c.Webhook.TokenFile})
	}
	if err != nil {
		return err
	}
	o := recording.Options{Sink: sink, Strict: c.Mode == config.RecordingStrict, Input: c.Input, Registerer: p.metrics, Now: time.Now}
	for _, text := range c.Redact {
		o.Redact = append(o.Redact, regexp.MustCompile(text)) // Validate has refused what can't be compiled
	}
	if p.recorder, err = recording.New(o); err != nil {
		return err
	}
	p.running.Go(func() { p.recorder.Run(ctx) })
	return nil
}

// terminals returns the recorder of terminals, nil for none.
func (p recordings) terminals() terminal.Recorder {
	if p.recorder == nil {
		return nil
	}
	return p.recorder
}

// refusing returns the filter that refuses what can't be recorded, where everything must be.
func (p recordings) refusing() filter.Unrecorded {
	c := p.cfg.Terminal.Recording
	return filter.Unrecorded{Refuse: c.Mode == config.RecordingStrict, Users: c.Passthrough.Users, Groups: c.Passthrough.Groups,
		GroupsOf: p.groups.Of}
}
