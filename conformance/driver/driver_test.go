//go:build unix

package driver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// play is the variable that makes a driver of this test's program: what it is to do.
const play = "KSHARE_TEST_DRIVER"

func TestMain(m *testing.M) {
	if part := os.Getenv(play); part != "" {
		act(part)
		return
	}
	os.Exit(m.Run())
}

// act is a driver that misbehaves.
func act(part string) {
	fmt.Println(`{"ev":"hello","client":"test","version":"1","caps":["exp"]}`)
	switch part {
	case "garbage":
		fmt.Println("not JSON")
		fmt.Println(`{"no":"event"}`)
		fmt.Println(strings.Repeat("x", 3<<20))
		fmt.Println(`{"ev":"done","op":"after"}`)
	case "echo":
		var op string
		for {
			if _, err := fmt.Scanln(&op); err != nil {
				return
			}
			fmt.Printf("{\"ev\":\"done\",\"op\":%q}\n", op)
		}
	case "crash":
		fmt.Fprintln(os.Stderr, "out of order")
		os.Exit(3)
	case "child":
		cmd := exec.Command("sleep", "1000")
		cmd.Stdout = os.Stdout // which would keep the pipe open
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		fmt.Printf("{\"ev\":\"rec\",\"o\":%d}\n", cmd.Process.Pid)
		if os.Getenv("KSHARE_TEST_LEAVE") == "" {
			select {}
		}
	}
}

func start(t *testing.T, part string, env ...string) *Driver {
	all := map[string]string{play: part}
	for _, e := range env {
		all[e] = "1"
	}
	d, err := Start([]string{os.Args[0]}, all)
	require.NoError(t, err)
	t.Cleanup(func() { d.Stop(0) })
	return d
}

func await(t *testing.T, d *Driver, ev string) Event {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e, err := d.Await(ctx, 0, func(e Event) bool { return e.Ev == ev })
	require.NoError(t, err)
	return e
}

func TestHelloAndOperations(t *testing.T) {
	d := start(t, "echo")
	e := await(t, d, "hello")
	assert.Equal(t, []any{"test", "1", []string{"exp"}}, []any{e.Client, e.Version, e.Caps})
	require.NoError(t, d.Send(Op{"op": "run"}))
	assert.Equal(t, `{"op":"run"}`, await(t, d, "done").Op)
	d.Stop(time.Minute) // the end of its input is the end of it
	ended, err := d.Ended()
	assert.True(t, ended)
	assert.NoError(t, err)
}

func TestGarbageIsKeptAndSkipped(t *testing.T) {
	d := start(t, "garbage")
	assert.Equal(t, "after", await(t, d, "done").Op)
	g := d.Garbage()
	require.Len(t, g, 3)
	assert.Equal(t, "not JSON", g[0])
	assert.LessOrEqual(t, len(g[2]), 500)
}

func TestCrashIsTold(t *testing.T) {
	d := start(t, "crash")
	_, err := d.Await(context.Background(), 0, func(Event) bool { return false })
	require.ErrorContains(t, err, "exit status 3")
	assert.Equal(t, "out of order\n", d.Stderr())
	_, err = d.Await(context.Background(), 0, func(Event) bool { return false })
	require.ErrorContains(t, err, "exit status 3", "also of one that had ended before")
}

// What a driver leaves behind is ended with it, whether it is killed or ends by itself.
func TestNothingIsLeftBehind(t *testing.T) {
	for name, env := range map[string][]string{"killed": nil, "ended": {"KSHARE_TEST_LEAVE"}} {
		t.Run(name, func(t *testing.T) {
			d := start(t, "child", env...)
			pid := int(await(t, d, "rec").Offset)
			d.Stop(0)
			require.Eventually(t, func() bool { return !runs(pid) }, time.Minute, time.Millisecond)
		})
	}
}

// runs tells whether a process runs: one that has ended and was not waited for does not.
func runs(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

func TestNoSuchDriver(t *testing.T) {
	_, err := Start([]string{"/no/such/driver"}, nil)
	require.ErrorContains(t, err, "the driver cannot be started")
	_, err = Start(nil, nil)
	require.ErrorContains(t, err, "none was given")
}
