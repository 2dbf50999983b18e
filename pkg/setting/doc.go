// Package setting reads the settings of the platform that people change while it runs: its theme, the images that this shows,
// configurations of extensions, and how member clusters are connected. They lie in ConfigMaps and Secrets of the platform's namespace,
// where every replica follows
// them: what is asked for is in memory, in the form in which it is answered. Who writes them does that elsewhere, as himself.
//
// Memory is bounded by the bounds of what is followed: one ConfigMap for the theme, ImageSlots for images, and Secrets of two types, which
// only people with a right to them make.
package setting
