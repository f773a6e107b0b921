//! The floor under `redlock run --key K -- true`: what the same work costs with nothing around it. It
//! connects to the nodes, sets a key on all of them in one round trip, counts a quorum, runs the
//! command, and deletes the key where it is still its own. No command line, no time-outs, no
//! extension, no supervision: nobody should lock anything with it.
//!
//! usage: floor KEY COMMAND [ARG]...      with `REDLOCK_NODES` as a comma separated list

use std::{
    env,
    io::{self, Error, Read, Write},
    net::TcpStream,
    process::{self, Command, ExitCode},
};

const RELEASE: &str = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) \
                       else return 0 end";

fn main() -> ExitCode {
    match run() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let _ = writeln!(io::stderr(), "floor: {error}");
            ExitCode::from(125)
        }
    }
}

fn run() -> io::Result<u8> {
    let mut arguments = env::args_os().skip(1);
    let (Some(key), Some(program)) = (arguments.next(), arguments.next()) else {
        return Err(Error::other("usage: floor KEY COMMAND [ARG]..."));
    };
    let key = key.into_string().map_err(|_| Error::other("the key is no text"))?;
    let nodes = env::var("REDLOCK_NODES").map_err(Error::other)?;
    // The number of the process will do as a token where nobody else takes part.
    let token = process::id().to_string();
    let mut streams = nodes
        .split(',')
        .map(|node| {
            let stream = TcpStream::connect(node.trim_start_matches("redis://"))?;
            stream.set_nodelay(true)?;
            Ok(stream)
        })
        .collect::<io::Result<Vec<_>>>()?;
    let votes = ask(&mut streams, &pack(&["SET", &key, &token, "NX", "PX", "30000"]), b"+OK")?;
    let status = if votes > streams.len() / 2 {
        Command::new(program).args(arguments).status()?.code()
    } else {
        Some(75)
    };
    ask(&mut streams, &pack(&["EVAL", RELEASE, "1", &key, &token]), b":1")?;
    Ok(status.and_then(|code| u8::try_from(code).ok()).unwrap_or(125))
}

/// Asks all nodes at once and counts those whose answer begins with `yes`.
fn ask(streams: &mut [TcpStream], request: &[u8], yes: &[u8]) -> io::Result<usize> {
    for stream in &mut *streams {
        stream.write_all(request)?;
    }
    let mut votes = 0;
    for stream in streams {
        let mut answer = [0; 64];
        let length = stream.read(&mut answer)?;
        votes += usize::from(answer.get(..length).is_some_and(|text| text.starts_with(yes)));
    }
    Ok(votes)
}

fn pack(words: &[&str]) -> Vec<u8> {
    let head = format!("*{}\r\n", words.len());
    let words = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    [head].into_iter().chain(words).collect::<String>().into_bytes()
}
