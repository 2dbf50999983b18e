package table

import (
	"slices"
	"strconv"
	"strings"
)

func nodes() *layout {
	const columns = "Name,Status,Roles,Age,Version,Internal-IP+,External-IP+,OS-Image+,Kernel-Version+,Container-Runtime+"
	return layoutOf(columns, func(r *row, o value) {
		status := o.at("status")
		info := status.at("nodeInfo")
		r.name(o)
		r.text(nodeState(o))
		r.joined(nodeRoles(o.at("metadata", "labels")), ",")
		r.age(o)
		r.text(info.text("kubeletVersion"))
		for _, typ := range [...]string{"InternalIP", "ExternalIP"} {
			address := none
			for _, a := range status.at("addresses").each() {
				if a.text("type") == typ {
					address = a.text("address")
					break
				}
			}
			r.text(address)
		}
		r.or(info.text("osImage"), unknown)
		kernel, architecture := info.text("kernelVersion"), info.text("architecture")
		if kernel != "" && architecture != "" {
			kernel += " (" + architecture + ")"
		}
		r.or(kernel, unknown)
		r.or(info.text("containerRuntimeVersion"), unknown)
	})
}

func nodeState(o value) string {
	state := "Unknown"
	if ready := o.at("status", "conditions").condition("Ready"); ready != "" {
		state = "NotReady"
		if ready.text("status") == "True" {
			state = "Ready"
		}
	}
	if o.is("spec", "unschedulable") {
		state += ",SchedulingDisabled"
	}
	return state
}

// nodeRoles returns the roles of a node, by its labels.
func nodeRoles(labels value) []string {
	var out []string
	for key, v := range labels.members() {
		role, ok := strings.CutPrefix(key, "node-role.kubernetes.io/")
		if !ok && key == "kubernetes.io/role" {
			role, ok = v.text(), true
		}
		if ok && role != "" && !slices.Contains(out, role) {
			out = append(out, role)
		}
	}
	slices.Sort(out)
	return out
}

func namespaces() *layout {
	return layoutOf("Name,Status,Age", func(r *row, o value) {
		r.name(o)
		r.text(o.text("status", "phase"))
		r.age(o)
	})
}

func bindings() *layout {
	return layoutOf("Name,Role,Age,Users+,Groups+,ServiceAccounts+", func(r *row, o value) {
		subjects := map[string][]string{}
		for _, s := range o.at("subjects").each() {
			kind, name := s.text("kind"), s.text("name")
			if kind == "ServiceAccount" {
				name = s.text("namespace") + "/" + name
			}
			subjects[kind] = append(subjects[kind], name)
		}
		r.name(o)
		r.text(o.text("roleRef", "kind") + "/" + o.text("roleRef", "name"))
		r.age(o)
		for _, kind := range [...]string{"User", "Group", "ServiceAccount"} {
			r.text(strings.Join(subjects[kind], ", "))
		}
	})
}

func leases() *layout {
	return layoutOf("Name,Holder,Age", func(r *row, o value) {
		r.name(o)
		r.text(o.text("spec", "holderIdentity"))
		r.age(o)
	})
}

func priorityClasses() *layout {
	return layoutOf("Name,Value#,Global-Default?,Age,PreemptionPolicy", func(r *row, o value) {
		r.name(o)
		r.number(o.number("value"))
		if o.is("globalDefault") {
			r.raw("true")
		} else {
			r.raw("false")
		}
		r.age(o)
		r.text(o.text("preemptionPolicy"))
	})
}

func quotas() *layout {
	return layoutOf("Name,Request,Limit,Age", func(r *row, o value) {
		var requests, limits []string
		used := o.at("status", "used")
		for key, hard := range o.at("status", "hard").members() {
			text := key + ": " + quantityOr0(used.text(key)) + "/" + hard.text()
			if strings.HasPrefix(key, "limits.") {
				limits = append(limits, text)
			} else {
				requests = append(requests, text)
			}
		}
		slices.Sort(requests)
		slices.Sort(limits)
		r.name(o)
		r.text(strings.Join(requests, ", "))
		r.text(strings.Join(limits, ", "))
		r.age(o)
	})
}

func quantityOr0(s string) string {
	if s == "" {
		return "0"
	}
	return s
}

func apiServices() *layout {
	return layoutOf("Name,Service,Available,Age", func(r *row, o value) {
		r.name(o)
		if s := o.at("spec", "service"); s.has() {
			r.text(s.text("namespace") + "/" + s.text("name"))
		} else {
			r.text("Local")
		}
		available := o.at("status", "conditions").condition("Available")
		state := available.text("status")
		switch {
		case available == "":
			state = "Unknown"
		case state != "True":
			state += " (" + available.text("reason") + ")"
		}
		r.text(state)
		r.age(o)
	})
}

func definitions() *layout {
	return layoutOf("Name,Scope+,Versions+,Created At,Group+,Kind+,ShortNames+,Established+", func(r *row, o value) {
		spec := o.at("spec")
		var versions []string
		for _, v := range spec.at("versions").each() {
			name := v.text("name")
			if v.is("storage") {
				name += "(storage)"
			}
			versions = append(versions, name)
		}
		r.name(o)
		r.texts(spec.text("scope"), strings.Join(versions, ","))
		r.created(o)
		r.texts(spec.text("group"), spec.text("names", "kind"), strings.Join(spec.at("names", "shortNames").texts(), ","),
			strconv.FormatBool(o.at("status", "conditions").holds("Established")))
	})
}
