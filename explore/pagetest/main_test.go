// Package pagetest drives the explorer's page in Chromium: what a person or a keyboard does, and what is shown then. make page runs it.
package pagetest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// required is set by make page: then the tests fail where there is no Chromium.
const required = "KSHARE_PAGE"

var (
	browser context.Context // the one browser; each test has a tab of its own
	kshare  string          // the program
	server  string          // http://host:port of kshare explore
)

// chromium finds the browser: CHROMIUM names it, else one in PATH.
func chromium() (string, error) {
	if name := os.Getenv("CHROMIUM"); name != "" {
		return exec.LookPath(name)
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no Chromium in PATH: install it (apt-get install chromium), or say with CHROMIUM where it is")
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	path, err := chromium()
	if err != nil {
		if os.Getenv(required) != "" {
			fmt.Fprintln(os.Stderr, "make page:", err)
			return 1
		}
		fmt.Fprintln(os.Stderr, "the tests of the page are skipped:", err)
		return 0
	}
	dir, err := os.MkdirTemp("", "kshare-page")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	kshare = filepath.Join(dir, "kshare")
	build := exec.Command("go", "build", "-o", kshare, "./cmd/kshare")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	address, stop, err := start("explore", "--http", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer stop()
	server = address
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WindowSize(1440, 900), chromedp.Flag("js-flags", "--expose-gc"))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium has no sandbox for root
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	defer cancel()
	browser, cancel = chromedp.NewContext(ctx)
	defer cancel()
	if err := chromedp.Do(browser); err != nil {
		fmt.Fprintln(os.Stderr, "Chromium does not start:", err)
		return 1
	}
	return m.Run()
}

// start starts kshare and tells where its HTTP interface is, as it says itself.
func start(args ...string) (address string, stop func(), err error) {
	cmd := exec.Command(kshare, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = cmd.Process.Signal(os.Interrupt)
		late := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		late.Stop()
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		address := ""
		if page, ok := strings.CutPrefix(lines.Text(), "EXPLORE "); ok {
			address = strings.TrimSuffix(page, "/explore/")
		} else if host, ok := strings.CutPrefix(lines.Text(), "HTTP "); ok {
			address = "http://" + host
		}
		if address != "" {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return address, stop, nil
		}
	}
	stop()
	return "", nil, fmt.Errorf("kshare %s said no address", strings.Join(args, " "))
}
