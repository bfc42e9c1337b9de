import type { RequestListener } from "node:http";
import { z } from "zod";
import { bareApp, serve } from "../../../shared/http/ops.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { type Mining, Oddities } from "./chain.ts";
import { type Counter, readJson } from "./facilitator-server.ts";
import { Fault, type Faults } from "./faults.ts";
import { createNode, NodeIlls, type RpcRequest } from "./node.ts";

type Control = {
  faults: Faults;
  counter: Counter;
  mining: Mining;
  /** Of the chain's own node. */
  rpcUrl: string;
  makeOdd: (oddities: Oddities) => Promise<void>;
  describe: () => object;
};

const MiningOrder = z.strictObject({ running: z.boolean() });

/**
 * The control port, for tests and for playing:
 *   GET /                              describes the devnet
 *   POST | GET | DELETE /faults        orders one, lists those that are not used up, forgets them
 *   GET | DELETE /requests             lists what the facilitator received, starts counting anew
 *   GET | PUT /mining {running}        whether blocks are made by themselves
 *   PUT /token                         makes the token odd in these ways
 *   GET | PUT /node                    the ills of the node at POST /rpc, which is the chain's own without them
 */
export function createControlHandler({
  faults,
  counter,
  mining,
  rpcUrl,
  makeOdd,
  describe,
}: Control): RequestListener {
  const app = bareApp();
  app.get("/", (_req, res) => {
    res.json(describe());
  });
  app
    .route("/faults")
    .get((_req, res) => {
      res.json({ faults: faults.list() });
    })
    .post(async (req, res) => {
      const fault = parseOrder(Fault, await readJson(req, res));
      faults.order(fault);
      res.status(201).json(fault);
    })
    .delete((_req, res) => {
      faults.clear();
      res.status(204).end();
    });
  app
    .route("/requests")
    .get((_req, res) => {
      res.json(counter.read());
    })
    .delete((_req, res) => {
      counter.reset();
      res.status(204).end();
    });
  app
    .route("/mining")
    .get((_req, res) => {
      res.json({ running: mining.running });
    })
    .put(async (req, res) => {
      const { running } = parseOrder(MiningOrder, await readJson(req, res));
      await (running ? mining.resume() : mining.pause());
      res.json({ running });
    });
  app.put("/token", async (req, res) => {
    const oddities = parseOrder(Oddities, (await readJson(req, res)) ?? {});
    await makeOdd(oddities);
    res.json(oddities);
  });
  serveNode(app, rpcUrl);
  return serve(app);
}

function serveNode(app: ReturnType<typeof bareApp>, rpcUrl: string): void {
  let ills = NodeIlls.parse({});
  const node = createNode(rpcUrl, () => ills);
  app
    .route("/node")
    .get((_req, res) => {
      res.json(ills);
    })
    .put(async (req, res) => {
      ills = parseOrder(NodeIlls, (await readJson(req, res)) ?? {});
      res.json(ills);
    });
  app.post("/rpc", async (req, res) => {
    const { status, body } = await node((await readJson(req, res)) as RpcRequest);
    res.status(status).json(body);
  });
}

function parseOrder<Schema extends z.ZodType>(schema: Schema, input: unknown): z.output<Schema> {
  const read = schema.safeParse(input);
  if (read.success) return read.data;
  const detail = z.prettifyError(read.error);
  throw AppError.public("request.malformed", detail, { cause: read.error });
}
