package manifestsource

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/exec/environ"
)

// vanishTime is how long no manifest must have defined an object until it counts as deleted. Some
// editors take a file away for a moment to write it, and a directory that is removed loses its
// files one by one. Volumes that have its files wait longer: see [source.AbsenceTime].
const vanishTime = 100 * time.Millisecond

// emptyTime is how long a file with objects may be empty until that is reported.
const emptyTime = 500 * time.Millisecond

// catalog is what the directory defines at one moment. It is not changed once it is made.
type catalog struct {
	files   map[string]file // Nil before the directory was read.
	objects map[api.Ref]known
	// unread is why objects that no file defines may be defined after all: a file has a mistake or
	// is being written, or the directory cannot be read. Nil where that cannot be.
	unread *Problem
	// problems are all of them, in the order of their places.
	problems []*Problem
}

// file is one file of the directory.
type file struct {
	digest   [sha256.Size]byte // Of what was read last.
	objects  []defined         // Of the last text that had no mistake.
	problems []*Problem        // Of what was read last.
	// empty is since when the file has lost all that defined its objects; zero for not.
	empty time.Time
	// unfinished is for a file that is being written for the first time; nil for others.
	unfinished *Problem
}

// known is one object.
type known struct {
	content api.Content
	// problem is why the content may not be what the manifests have by now.
	problem *Problem
	// vanished is since when no manifest defines the object; zero while one does.
	vanished time.Time
}

// next returns the catalog after the directory has been read.
func (c catalog) next(read environ.Content, beingWritten map[string]bool, v versions, now time.Time) catalog {
	files, problem := c.nextFiles(read, beingWritten, now)
	next := catalog{files: files, objects: map[api.Ref]known{}, unread: problem}
	if problem != nil {
		next.problems = append(next.problems, problem)
	}
	definitions := map[api.Ref][]defined{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := files[name]
		next.problems = append(next.problems, f.problems...)
		next.noteUnread(f)
		for _, d := range f.objects {
			definitions[d.content.Ref] = append(definitions[d.content.Ref], d)
		}
	}
	for ref, all := range definitions {
		next.define(c, ref, all, v, now)
	}
	for ref, k := range c.objects {
		next.keepVanished(ref, k, now)
	}
	if problem != nil {
		next.doubtAll(problem)
	}
	slices.SortStableFunc(next.problems, func(a, b *Problem) int { return comparePlaces(a.Place, b.Place) })
	return next
}

func comparePlaces(a, b Place) int {
	return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Document, b.Document), cmp.Compare(a.Line, b.Line))
}

// nextFiles returns the files after the directory has been read. Where it could not be they are
// those before, with the reason.
func (c catalog) nextFiles(
	read environ.Content, beingWritten map[string]bool, now time.Time,
) (map[string]file, *Problem) {
	var lost []*environ.FileError
	switch {
	case read.Missing:
		return c.files, &Problem{Place: Place{File: "."}, Message: "the directory does not exist"}
	case read.Err != nil:
		all, rest := environ.FileErrors(read.Err)
		if rest != nil {
			return c.files, &Problem{Place: Place{File: "."}, Message: rest.Error()}
		}
		lost = all
	}
	files := map[string]file{}
	for _, f := range read.Files {
		before := c.files[f.Name]
		switch {
		case !beingWritten[f.Name]:
			files[f.Name] = before.next(f, now)
		case len(before.objects) > 0 || len(before.problems) > 0: // It is read again when it is closed.
			before.empty = time.Time{}
			files[f.Name] = before
		default:
			files[f.Name] = file{unfinished: &Problem{Place: Place{File: f.Name}, Message: "the file is being written"}}
		}
	}
	for _, l := range lost {
		before := c.files[l.Name]
		before.problems = []*Problem{{Place: Place{File: l.Name}, Message: l.Err.Error()}}
		before.digest = [sha256.Size]byte{}
		files[l.Name] = before
	}
	return files, nil
}

// noteUnread remembers why objects that no file defines may be defined after all.
func (c *catalog) noteUnread(f file) {
	problem := f.unfinished
	if len(f.problems) > 0 {
		problem = f.problems[0]
	}
	if problem != nil && c.unread == nil {
		c.unread = problem
	}
}

// next returns the file after it has been read.
func (f file) next(read environ.File, now time.Time) file {
	digest := sha256.Sum256(read.Data)
	switch {
	case f.digest == digest:
		return f
	case len(read.Data) == 0 && len(f.objects) > 0 && f.empty.IsZero(): // Most likely somebody begins to write it.
		f.empty = now
		return f
	case len(read.Data) == 0 && len(f.objects) > 0 && now.Sub(f.empty) < emptyTime:
		return f
	case len(read.Data) == 0 && len(f.objects) > 0: // A disk that is full, or a tool that failed.
		return file{digest: digest, objects: f.objects, problems: []*Problem{{
			Place: Place{File: read.Name}, Message: "the file is empty: to delete its objects, remove the file",
		}}}
	}
	objects, problems := parseFile(read.Name, read.Data)
	if len(problems) > 0 {
		return file{digest: digest, objects: f.objects, problems: problems}
	}
	return file{digest: digest, objects: objects}
}

// define takes in an object that files define. Where they do not agree on what it is, it stays what
// it was.
func (c *catalog) define(before catalog, ref api.Ref, all []defined, v versions, now time.Time) {
	was, isOld := before.objects[ref]
	if len(all) > 1 {
		p := ambiguous(ref, all)
		c.problems = append(c.problems, p)
		was.problem, was.vanished = p, time.Time{}
		c.objects[ref] = was
		return
	}
	content := v.stamp(all[0].content)
	if isOld && was.content.ResourceVersion == content.ResourceVersion && was.content.UID == content.UID {
		content = was.content
	} else if before.files != nil {
		content.ChangedAt = now
	}
	k := known{content: content}
	if f := c.files[all[0].place.File]; len(f.problems) > 0 {
		k.problem = f.problems[0]
	}
	c.objects[ref] = k
}

func ambiguous(ref api.Ref, all []defined) *Problem {
	places := make([]string, len(all))
	for i, d := range all {
		places[i] = d.place.String()
	}
	return &Problem{Place: all[len(all)-1].place, Message: fmt.Sprintf(
		"%s is defined more than once: keep one of %s", ref, strings.Join(places, " and "))}
}

// keepVanished keeps an object that no manifest defines any more until that has lasted.
func (c *catalog) keepVanished(ref api.Ref, k known, now time.Time) {
	if _, found := c.objects[ref]; found || !k.isFound() {
		return
	}
	if k.vanished.IsZero() {
		k.vanished = now
	}
	k.problem = c.unread
	if c.unread != nil || now.Sub(k.vanished) < vanishTime {
		c.objects[ref] = k
	}
}

// doubtAll gives all objects the problem that the directory has.
func (c *catalog) doubtAll(problem *Problem) {
	for ref, k := range c.objects {
		k.problem = problem
		c.objects[ref] = k
	}
}

// isFound reports whether the content of the object is known.
func (k known) isFound() bool { return k.content.UID != "" }

// lookAgain returns when the directory is to be read although nothing has changed: when an object
// that has vanished counts as deleted, or an empty file as a mistake. It returns zero for never.
func (c catalog) lookAgain() time.Time {
	var first time.Time
	at := func(since time.Time, wait time.Duration) {
		if next := since.Add(wait); !since.IsZero() && (first.IsZero() || next.Before(first)) {
			first = next
		}
	}
	for _, k := range c.objects {
		if c.unread == nil {
			at(k.vanished, vanishTime)
		}
	}
	for _, f := range c.files {
		at(f.empty, emptyTime)
	}
	return first
}

// get returns what is known of an object. It is not synced before the directory was read, and where
// a file that is not understood may define it.
func (c catalog) get(ref api.Ref) (k known, synced bool) {
	k, found := c.objects[ref]
	switch {
	case found && k.isFound():
		return k, true
	case found:
		return k, false
	case c.unread != nil:
		return known{problem: &Problem{Place: c.unread.Place, Message: "it may be defined here: " + c.unread.Message}}, false
	}
	return known{}, c.files != nil
}

// sameProblems reports whether two catalogs have the same problems.
func sameProblems(a, b []*Problem) bool {
	return slices.EqualFunc(a, b, func(a, b *Problem) bool { return *a == *b })
}
