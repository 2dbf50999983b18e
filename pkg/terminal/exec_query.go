package terminal

import (
	"net/url"
	"strconv"
)

// Shell returns the command for a shell by its name: bash or sh. For any other name it is bash where the container has one, and sh
// otherwise.
func Shell(name string) []string {
	switch name {
	case "bash", "sh":
		return []string{name}
	}
	return []string{"sh", "-c", "command -v bash >/dev/null && exec bash || exec sh"}
}

// Query returns the query of a request to exec (PodExecOptions of core/v1) for a shell in a container; "" for the pod's default one.
func Query(container, name string) url.Values {
	q := AttachQuery(container)
	q["command"] = Shell(name)
	return q
}

// AttachQuery returns the query of a request to attach to the process of a container that has a terminal (PodAttachOptions of core/v1);
// "" for the pod's default one.
func AttachQuery(container string) url.Values {
	q := url.Values{}
	if container != "" {
		q.Set("container", container)
	}
	for _, on := range []string{"stdin", "stdout", "tty"} {
		q.Set(on, strconv.FormatBool(true))
	}
	return q
}
