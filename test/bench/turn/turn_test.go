package turn_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/test/bench/turn"
)

// TestDo looks that one comes after the other, and goes on when that fails.
func TestDo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := turn.New()
		failed := errors.New("failed")
		var got []string
		take := func(name string, err error) {
			go func() {
				gotErr := turns.Do(t.Context(), func(context.Context) error {
					got = append(got, name+" begins")
					<-time.After(time.Minute)
					got = append(got, name+" ends")
					return err
				})
				if !errors.Is(gotErr, err) {
					t.Errorf("%s: error = %v, want %v", name, gotErr, err)
				}
			}()
			synctest.Wait()
		}
		take("first", failed)
		take("second", nil)
		take("third", nil)
		<-time.After(time.Hour)
		synctest.Wait()
		want := []string{"first begins", "first ends", "second begins", "second ends", "third begins", "third ends"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("turns (-want +got):\n%s", diff)
		}
	})
}
