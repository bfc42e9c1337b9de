import type { EndpointToml } from "../../shared/config/webhooks-toml.ts";
import type { Part } from "../../shared/dev/process.ts";
import type { Postern } from "./postern-command.ts";
import type { RunnerView } from "./runner-view.ts";
import type { Sender } from "./sender.ts";
import type { Shop } from "./shop/shop.ts";
import type { Stage } from "./stage.ts";
import type { Tally } from "./tally.ts";
import type { World } from "./world.ts";

/** What a scene plays with. */
export type Demo = {
  readonly stage: Stage;
  readonly world: World;
  readonly parts: Readonly<Record<"runner" | "producer" | "webhooks", Part>>;
  readonly tally: Tally;
  readonly sender: Sender;
  readonly runner: RunnerView;
  readonly postern: Postern;
  /** Absent where there is no devnet: nothing is sold. */
  readonly shop: Shop | undefined;
  /** The endpoint of this way to authenticate. */
  endpoint(auth: EndpointToml["auth"]): EndpointToml;
};

/** Shows one thing and checks it. Rejects when it cannot go on; the rest of the demo is then left out. */
export type Scene = { readonly title: string; play(demo: Demo): Promise<void> };

/** One in which a job is bought, or is not. */
export type PaidScene = { readonly title: string; play(demo: Demo, shop: Shop): Promise<void> };
