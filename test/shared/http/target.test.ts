import { expect, test } from "vitest";
import { listen } from "../../../shared/http/listen.ts";
import { mountedAt, wholeTarget } from "../../../shared/http/target.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { send } from "../../support/http.ts";

const ends = useEnds();

async function serve(mountPath: string): Promise<string> {
  const handler = mountedAt(mountPath, (req, res) => res.end(`${req.url} of ${wholeTarget(req)}`));
  const server = await listen(handler, "127.0.0.1:0");
  ends.defer(() => server.close(0));
  return server.address;
}

test.each([
  ["/postern/hooks/a", "/hooks/a of /postern/hooks/a"],
  ["/postern/hooks/a?b=/c", "/hooks/a?b=/c of /postern/hooks/a?b=/c"],
  ["/postern", "/ of /postern"],
  ["/postern?b", "/?b of /postern?b"],
  ["/postern//x", "//x of /postern//x"],
  ["/postern/postern/x", "/postern/x of /postern/postern/x"],
])(
  "a handler mounted at /postern gets the path below it for %s, and can find the whole target",
  async (path, seen) => {
    expect((await send(await serve("/postern"), { path, method: "GET" })).text).toBe(seen);
  },
);

test.each(["/", "/posternx/hooks", "/Postern/hooks", "/%70ostern/hooks", "/other/postern/hooks"])(
  "a request for %s is not below the mount path /postern",
  async (path) => {
    const answer = await send(await serve("/postern"), { path, method: "GET" });
    expect(answer.json()).toMatchObject({ status: 404, code: "request.not_found" });
  },
);
