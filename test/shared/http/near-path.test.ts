import { expect, test } from "vitest";
import { createFindNear } from "../../../shared/http/near-path.ts";

const findNear = createFindNear(["/hooks/github", "/Hooks/Slack/", "/hooks/%41", "/a", "/hooks/other"]);

const PREFIXED = "by its prefix, which the mount path or a proxy must remove";

test.each([
  ["/hooks/github/", "/hooks/github", "by a trailing slash"],
  ["/Hooks/Slack", "/Hooks/Slack/", "by a trailing slash"],
  ["/Hooks/GitHub", "/hooks/github", "by case"],
  ["/hooks/slack", "/Hooks/Slack/", "by a trailing slash and case"],
  ["/hooks%2Fgithub", "/hooks/github", "by percent-encoding"],
  ["/hooks/%67ithub/", "/hooks/github", "by a trailing slash and percent-encoding"],
  ["/hooks/A", "/hooks/%41", "by percent-encoding"],
  ["/hooks/githb", "/hooks/github", "by one letter"],
  ["/hooks/githubb", "/hooks/github", "by one letter"],
  ["/hooks/gitlub", "/hooks/github", "by one letter"],
  ["//hooks/github", "/hooks/github", "by an extra slash"],
  ["/hooks//github/", "/hooks/github", "by an extra slash and a trailing slash"],
  ["/hooks/gihtub", "/hooks/github", "by two swapped letters"],
  ["/HOOKS/GITHB/", "/hooks/github", "by one letter"],
  ["/A", "/a", "by case"],
  ["/postern/hooks/github", "/hooks/github", PREFIXED],
  ["/a/b/HOOKS/github/", "/hooks/github", PREFIXED],
])("%s was probably meant for %s, and differs %s", (sent, path, differs) => {
  expect(findNear(sent)).toEqual({ path, differs });
});

test.each([
  "/hooks/github",
  "/hooks/gi",
  "/postern/a",
  "/postern/hooks",
  "/hooks/gitbuh",
  "/b",
  "/",
  "",
  "*",
  "/favicon.ico",
  "/hooks/%/%",
  `/${"x".repeat(5000)}`,
])("%s is not similar to another path", (sent) => {
  expect(findNear(sent)).toBeUndefined();
});
