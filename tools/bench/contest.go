package main

import (
	"context"
	"fmt"
	"time"
)

// side is one of the two that a contest compares.
type side struct {
	target
	count int // requests in a round
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

// measure is what is read off a round.
type measure struct {
	suffix string // of the figure's name
	unit   string
	of     func(sample) float64
	goal   string
}

// run plays the rounds and returns the figures. Who begins changes from round to round, so that a machine that slows down
// or speeds up in the course of it favours nobody.
func (c contest) run(ctx context.Context, rounds int) ([]figure, error) {
	ours := make([]sample, 0, rounds)
	theirs := make([]sample, 0, rounds)
	for round := range rounds {
		product := func() (err error) { ours, err = c.play(ctx, ours, c.product); return err }
		yardstick := func() (err error) {
			if c.yardstick != nil {
				theirs, err = c.play(ctx, theirs, *c.yardstick)
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

func (c contest) play(ctx context.Context, samples []sample, s side) ([]sample, error) {
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
