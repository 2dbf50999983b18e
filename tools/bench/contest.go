package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// side is one of the two that a contest compares.
type side struct {
	target
	count int // requests in a round
	// vary returns the paths of a round, where each request is to be new; nil for the target's own.
	vary func(round int) []string
	// during runs while the requests are made, until the returned function is called; nil for nothing.
	during func(context.Context) (stop func() error, err error)
}

// contest compares the product with a yardstick, in turns.
type contest struct {
	name      string
	conns     int
	product   side
	yardstick *side // nil for none
	beside    string
	measures  []measure
}

// measure is a value of a round.
type measure struct {
	suffix string // of the figure's name
	unit   string
	of     func(sample) float64
	goal   string
	// beyond is the goal for the value less the yardstick's, "" for none.
	beyond string
}

// run plays the rounds and returns the figures. The side that begins changes from round to round, so that a machine that slows down or
// speeds up meanwhile favours neither.
func (c contest) run(ctx context.Context, rounds int) ([]figure, error) {
	ours := make([]sample, 0, rounds)
	theirs := make([]sample, 0, rounds)
	for round := range rounds {
		product := func() (err error) { ours, err = c.play(ctx, ours, c.product, round); return err }
		yardstick := func() (err error) {
			if c.yardstick != nil {
				theirs, err = c.play(ctx, theirs, *c.yardstick, round)
			}
			return err
		}
		first, second := product, yardstick
		if round%2 == 1 {
			first, second = second, first
		}
		if err := first(); err != nil {
			return nil, err
		}
		if err := second(); err != nil {
			return nil, err
		}
	}
	return c.figures(ours, theirs), nil
}

func (c contest) play(ctx context.Context, samples []sample, s side, round int) (_ []sample, err error) {
	if s.vary != nil {
		paths := s.vary(round)
		s.path, s.others = paths[0], paths[1:]
	}
	if s.during != nil {
		stop, failed := s.during(ctx)
		if failed != nil {
			return samples, failed
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	one, err := s.batch(ctx, c.conns, s.count)
	if err != nil {
		return samples, err
	}
	return append(samples, one), nil
}

func (c contest) figures(ours, theirs []sample) []figure {
	var figures []figure
	for _, m := range c.measures {
		f := figure{name: c.name + m.suffix, value: medianOf(ours, m.of), unit: m.unit, goal: m.goal}
		if len(theirs) > 0 {
			f.yardstick, f.base = c.beside, medianOf(theirs, m.of)
		}
		figures = append(figures, f)
		if m.beyond != "" && f.yardstick != "" {
			figures = append(figures, figure{name: f.name + "-beyond", value: f.value - f.base, unit: f.unit, goal: m.beyond})
		}
	}
	return figures
}

func medianOf(samples []sample, of func(sample) float64) float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = of(s)
	}
	return median(values)
}

// cpu is the server's processor time for each request.
func cpu(goal string) measure {
	return measure{suffix: "-cpu", unit: "us", goal: goal, of: func(s sample) float64 {
		return micros(s.cpu) / float64(s.requests)
	}}
}

// latency is the time that a share of the requests does not exceed.
func latency(percent int) measure {
	return measure{suffix: fmt.Sprintf("-p%d", percent), unit: "us", of: func(s sample) float64 {
		return micros(quantile(s.latencies, float64(percent)/100))
	}}
}

// throughput is the bytes of bodies a second.
func throughput() measure {
	return measure{suffix: "-rate", unit: "MB/s", of: func(s sample) float64 {
		return float64(s.bytes) / 1e6 / s.wall.Seconds()
	}}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
