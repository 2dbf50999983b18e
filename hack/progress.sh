# To be sourced by scripts that build for minutes.

# progress NAME EXPECTATION COMMAND...: runs a command, and says what it waits for: once if it takes more than half a second, every 15 s
# from then on, and at its end. The status is the command's.
progress() {
	name=$1 expect=$2
	shift 2
	begun=$(date +%s)
	"$@" &
	job=$!
	(
		sleep 0.5 &
		nap=$!
		trap 'kill "$nap" 2>/dev/null; exit 0' TERM
		wait "$nap"
		echo "$name ($expect)"
		while :; do
			sleep 15 &
			nap=$!
			wait "$nap"
			echo "$name, $(($(date +%s) - begun)) s so far ($expect)"
		done
	) &
	beat=$!
	trap 'kill "$job" "$beat" 2>/dev/null; exit 130' INT TERM
	result=0
	wait "$job" || result=$?
	kill "$beat" 2>/dev/null || :
	wait "$beat" 2>/dev/null || :
	trap - INT TERM
	took=$(($(date +%s) - begun))
	if [ "$result" -ne 0 ]; then
		echo "$name failed after $took s" >&2
		return "$result"
	fi
	[ "$took" -lt 2 ] || echo "$name: done in $took s"
}
