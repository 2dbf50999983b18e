package merge

import (
	"errors"
	"net/http"

	"kapis.dev/ks-apiserver/pkg/cluster/merge/answertext"
	"kapis.dev/ks-apiserver/pkg/cluster/merge/budget"
)

type (
	// Budget is what all lists may hold, for who answers them.
	Budget = budget.Budget
	// Share is the part of it that a request holds.
	Share = budget.Share
	// Grow counts what is read.
	Grow = answertext.Grow
)

// NewBudget returns a Budget of so many bytes for all requests, and for one.
func NewBudget(all, one int64) *Budget { return budget.New(all, one) }

// Text is answertext.Text.
func Text(resp *http.Response, most int64, grow Grow) (string, error) {
	return answertext.Text(resp, most, grow)
}

// End is answertext.End.
func End(resp *http.Response) error { return answertext.End(resp) }

// counting returns what counts the bytes that are read of a source's answers.
func (l *list) counting(source int) answertext.Grow {
	return func(n int) error { return l.grow(source, n) }
}

func (l *list) grow(source, n int) error {
	l.mu.Lock()
	l.sent[source] += int64(n)
	sent := l.sent[source]
	l.mu.Unlock()
	err := l.share.Add(sent, int64(n))
	if err == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[source] -= int64(n) // it is not counted
	switch {
	case errors.Is(err, budget.ErrLarge):
		return faulty()
	case errors.Is(err, budget.ErrFull):
		return &outcome{reason: NotReady}
	case l.over == nil:
		l.over = err
	}
	return err
}

// again returns what a page that is made again has held.
func (l *list) again() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, n := range l.sent {
		l.share.Give(n)
		l.sent[i] = 0
	}
}

// exceeded returns why the list holds more than it may, nil where it does not.
func (l *list) exceeded() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}
