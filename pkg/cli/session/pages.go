package session

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pageSize is how many objects the API server returns at once: kubectl asks for as many.
const pageSize = 500

// Pages calls read for one page of a list after the other, until it returns the last page or an
// error. Only one page is in memory at a time, if read stores nothing.
func Pages(options metav1.ListOptions, read func(metav1.ListOptions) (metav1.ListInterface, error)) error {
	options.Limit = pageSize
	for {
		page, err := read(options)
		if err != nil {
			return err
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}
