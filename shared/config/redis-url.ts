import { percentDecoded } from "../platform/text/percent-decoded.ts";
import { type SecretSource, secretValue } from "./secrets.ts";

/** URL of a Redis, which may contain its password. */
export function redisUrl(from: SecretSource) {
  return secretValue(from).superRefine((url, context) => {
    const problem = redisUrlProblem(url.reveal());
    if (problem !== undefined) context.addIssue(problem);
  });
}

/** `unix:///run/redis.sock` */
export function isSocketUrl(text: string): boolean {
  return text.startsWith("unix:");
}

/** Says what is wrong with the URL of a Redis, without quoting the URL; undefined if it can be used. */
export function redisUrlProblem(text: string): string | undefined {
  if (isSocketUrl(text))
    return /^unix:\/\/\/[^?#]+$/.test(text)
      ? undefined
      : "must have the path of a socket, such as unix:///run/redis.sock";
  const rest = /^rediss?:\/\/(.*)$/s.exec(text)?.[1];
  if (rest === undefined) return "must be a redis://, rediss:// or unix:// URL";
  // People read everything before the last @ as credentials, but a parser stops at the first /, ? or #.
  const credentials = rest.slice(0, Math.max(0, rest.lastIndexOf("@")));
  const sign = /[/?#]/.exec(credentials)?.[0];
  if (sign !== undefined)
    return `has a ${sign} before its last @: write it as ${encodeURIComponent(sign)} in a user or password`;
  if (!URL.canParse(text)) return whyNoUrl(rest.slice(rest.lastIndexOf("@") + 1));
  return partProblem(new URL(text));
}

function partProblem({
  username,
  password,
  hostname,
  port,
  pathname,
  searchParams,
  hash,
}: URL): string | undefined {
  if (hostname === "") return "must have a host";
  if (port === "0") return PORT;
  if (!/^\/?\d{0,5}$/.test(pathname))
    return "must have a number as its database, such as redis://127.0.0.1:6379/0";
  if ([...searchParams].some(([name, value]) => name !== "family" || !/^[046]$/.test(value)))
    return "has an unknown parameter: only family=4 and family=6 are supported";
  if (hash !== "") return "must not have a fragment (#)";
  return [username, password].every((text) => percentDecoded(text) !== undefined)
    ? undefined
    : "has a % in its user or password that starts no escape: write % as %25";
}

const PORT = "must have a port from 1 to 65535";

function whyNoUrl(place: string): string {
  const authority = /^[^/?#]*/.exec(place)?.[0] ?? "";
  const port = /:([^:\]]*)$/.exec(authority)?.[1];
  if (authority === "" || authority.startsWith(":")) return "must have a host";
  if (port !== undefined && !(/^\d+$/.test(port) && Number(port) <= 65_535)) return PORT;
  return "must have a valid host";
}
