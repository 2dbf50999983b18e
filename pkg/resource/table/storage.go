package table

import (
	"slices"
	"strings"
)

// legacyClass is the annotation with the storage class of an old volume or claim.
const legacyClass = "volume.beta.kubernetes.io/storage-class"

// accessModes returns access modes in short, each once.
func accessModes(v value) string {
	var out []string
	for _, m := range [...]struct{ mode, short string }{
		{"ReadWriteOnce", "RWO"}, {"ReadOnlyMany", "ROX"}, {"ReadWriteMany", "RWX"}, {"ReadWriteOncePod", "RWOP"},
	} {
		if slices.Contains(v.texts(), m.mode) {
			out = append(out, m.short)
		}
	}
	return strings.Join(out, ",")
}

// phase returns the phase of a volume or a claim.
func phase(o value) string {
	if o.has("metadata", "deletionTimestamp") {
		return terminating
	}
	return o.text("status", "phase")
}

// storageClass returns the storage class of a volume or a claim.
func storageClass(o value) string {
	if class := o.text("metadata", "annotations", legacyClass); class != "" {
		return class
	}
	return o.text("spec", "storageClassName")
}

func claims() *layout {
	const columns = "Name,Status,Volume,Capacity,Access Modes,StorageClass,VolumeAttributesClass,Age,VolumeMode+"
	return layoutOf(columns, func(r *row, o value) {
		spec, capacity, modes := o.at("spec"), "", ""
		volume := spec.text("volumeName")
		if volume != "" {
			capacity, modes = o.text("status", "capacity", "storage"), accessModes(o.at("status", "accessModes"))
		}
		r.name(o)
		r.texts(phase(o), volume, capacity, modes, storageClass(o))
		r.or(spec.text("volumeAttributesClassName"), unset)
		r.age(o)
		r.or(spec.text("volumeMode"), unset)
	})
}

func volumes() *layout {
	const columns = "Name,Capacity,Access Modes,Reclaim Policy,Status,Claim,StorageClass,VolumeAttributesClass,Reason,Age,VolumeMode+"
	return layoutOf(columns, func(r *row, o value) {
		spec := o.at("spec")
		claim := ""
		if ref := spec.at("claimRef"); ref.has() {
			claim = ref.text("namespace") + "/" + ref.text("name")
		}
		r.name(o)
		r.texts(spec.text("capacity", "storage"), accessModes(spec.at("accessModes")), spec.text("persistentVolumeReclaimPolicy"),
			phase(o), claim, storageClass(o))
		r.or(spec.text("volumeAttributesClassName"), unset)
		r.text(o.text("status", "reason"))
		r.age(o)
		r.or(spec.text("volumeMode"), unset)
	})
}

func storageClasses() *layout {
	const columns = "Name,Provisioner,ReclaimPolicy,VolumeBindingMode,AllowVolumeExpansion,Age"
	return layoutOf(columns, func(r *row, o value) {
		name := o.text("metadata", "name")
		for _, key := range [...]string{"storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"} {
			if o.text("metadata", "annotations", key) == "true" {
				name += " (default)"
				break
			}
		}
		r.texts(name, o.text("provisioner"))
		r.or(o.text("reclaimPolicy"), "Delete")
		r.or(o.text("volumeBindingMode"), "Immediate")
		if o.is("allowVolumeExpansion") {
			r.raw("true")
		} else {
			r.raw("false")
		}
		r.age(o)
	})
}
