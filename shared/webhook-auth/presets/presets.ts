import type { Preset } from "../sender-description.ts";
import { chains } from "./chains.ts";
import { clouds } from "./clouds.ts";
import { codeHosts } from "./code-hosts.ts";
import { commerce } from "./commerce.ts";
import { documents } from "./documents.ts";
import { messaging } from "./messaging.ts";
import { monitoring } from "./monitoring.ts";
import { standardWebhooks } from "./standard-webhooks.ts";

/** Built-in descriptions of senders, by the value of `preset`. */
export const PRESETS: Readonly<Record<string, Preset>> = {
  ...codeHosts,
  ...clouds,
  ...standardWebhooks,
  ...chains,
  ...commerce,
  ...messaging,
  ...monitoring,
  ...documents,
};
