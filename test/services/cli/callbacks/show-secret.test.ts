import { expect, test } from "vitest";
import { usePostern } from "../../../fixtures/postern.ts";
import { CALLBACK_SECRET, ownSecretAt } from "../../../fixtures/receivers.ts";
import { runHere } from "../run-here.ts";

const NEXT = `whsec_${Buffer.alloc(32, "next").toString("base64")}`;
const postern = usePostern(() => ({
  // The secret of results is missing on purpose: the command reads only that of callbacks.
  postern: { callbacks: { secret: [NEXT, CALLBACK_SECRET] }, results: { secret: "env:NOT_SET_HERE" } },
}));
const secretOf = (...args: string[]) =>
  runHere(["callbacks", "show-secret", ...args, "--config-dir", postern.configDir]);

test("postern callbacks show-secret prints a receiver's secret for each configured secret, the first one first", async () => {
  const url = "https://hooks.example.com/told?by=postern";
  expect(await secretOf(url)).toMatchObject({
    ...{ code: 0, stderr: "" },
    stdout: `${ownSecretAt(url, NEXT)}\n${ownSecretAt(url)}\n`,
  });
});

test("two spellings of one URL have the same secret, and the command prints the URL that is signed", async () => {
  const [written, spelled] = ["https://hooks.example.com/a%7Bb", "https://HOOKS.example.com:443/x/../a{b"];
  const ran = await secretOf(spelled, "-o", "json");
  expect(JSON.parse(ran.stdout)).toEqual({
    url: written,
    secrets: [ownSecretAt(written, NEXT), ownSecretAt(written)],
  });
  expect(ran.stderr).toBe(`callbacks are sent to ${written}, the normal form of this URL\n`);
  expect((await secretOf("https://hooks.example.com/a%7bb")).stdout).not.toContain(ownSecretAt(written));
});

test.each(["hooks.example.com", "https://user@hooks.example.com/", "https://hooks.example.com/#a"])(
  "%s is refused as the URL of a receiver",
  async (url) => {
    expect(await secretOf(url)).toMatchObject({ code: 2, stdout: "" });
  },
);
