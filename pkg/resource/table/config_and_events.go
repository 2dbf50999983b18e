package table

import (
	"strconv"
	"strings"
)

// events are those of both groups, whose fields have other names.
func events() *layout {
	const columns = "Last Seen,Type,Reason,Object,Subobject+,Source+,Message,First Seen+,Count+,Name+"
	return layoutOf(columns, func(r *row, o value) {
		first := o.time("eventTime")
		if t := o.either("firstTimestamp", "deprecatedFirstTimestamp").time(); !t.IsZero() {
			first = t
		}
		last, count := first, o.either("count", "deprecatedCount").number()
		if t := o.either("lastTimestamp", "deprecatedLastTimestamp").time(); !t.IsZero() {
			last = t
		}
		if series := o.at("series"); series.has() {
			last, count = series.time("lastObservedTime"), series.number("count")
		} else if count == 0 {
			count = 1
		}
		about := o.either("involvedObject", "regarding")
		object := strings.ToLower(about.text("kind"))
		if name := about.text("name"); name != "" {
			object += "/" + name
		}
		r.texts(r.since(last), o.text("type"), o.text("reason"), object, about.text("fieldPath"), eventSource(o),
			strings.TrimSpace(o.either("message", "note").text()), r.since(first), strconv.FormatInt(count, 10), o.text("metadata", "name"))
	})
}

// either returns the first of two members that is there.
func (v value) either(a, b string) value {
	if first := v.at(a); first.has() {
		return first
	}
	return v.at(b)
}

func eventSource(o value) string {
	source := o.either("source", "deprecatedSource")
	component, host := source.text("component"), source.text("host")
	if component == "" {
		component = o.either("reportingComponent", "reportingController").text()
	}
	if host == "" {
		host = o.text("reportingInstance")
	}
	if host == "" {
		return component
	}
	return component + ", " + host
}

func configMaps() *layout {
	return layoutOf("Name,Data,Age", func(r *row, o value) {
		r.name(o)
		r.keys(o.at("data"), o.at("binaryData"))
		r.age(o)
	})
}

func secrets() *layout {
	return layoutOf("Name,Type,Data,Age", func(r *row, o value) {
		r.name(o)
		r.text(o.text("type"))
		r.keys(o.at("data"))
		r.age(o)
	})
}

// keys adds how many members objects have together, where the answer shows them or their number.
func (r *row) keys(of ...value) {
	switch {
	case r.dataHidden && r.keyCount == "":
		r.text(hidden)
		return
	case r.dataHidden:
		r.raw(value(r.keyCount))
		return
	}
	n := 0
	for _, v := range of {
		n += v.length()
	}
	r.number(int64(n))
}
