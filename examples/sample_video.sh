#!/usr/bin/env bash
# Makes a short video to ask about: a clock that counts the seconds, and things that happen at known times.
#
#     examples/sample_video.sh OUTPUT.mp4 [SECONDS]
#
# The seconds stand at the right of the picture. A white box is in the upper left corner from 4 s to 8 s, a black one
# in the lower right corner from 12 s to 16 s, and the tone rises from 440 Hz to 880 Hz at 10 s.
# ffmpeg alone draws it all; no font is needed.
set -euo pipefail

output=${1:?"use: sample_video.sh OUTPUT.mp4 [SECONDS]"}
seconds=${2:-20}

white="drawbox=x=20:y=20:w=120:h=80:color=white:t=fill:enable='between(t,4,8)'"
black="drawbox=x=iw-140:y=ih-100:w=120:h=80:color=black:t=fill:enable='between(t,12,16)'"
tone="aevalsrc='0.1*sin(2*PI*if(lt(t,10),440,880)*t)':s=44100:d=$seconds"

ffmpeg -hide_banner -nostdin -loglevel error -y \
    -f lavfi -i "testsrc=size=640x360:rate=25:duration=$seconds,$white,$black" \
    -f lavfi -i "$tone" \
    -c:v libx264 -preset veryfast -pix_fmt yuv420p -g 50 -c:a aac -shortest -movflags +faststart \
    "$output"
