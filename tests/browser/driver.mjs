// Drives one Chromium for tests/support/browser.py. Each line of standard input is {"run": "..."}: the body of an async
// function that has `page`, `context`, `axe` and `given`. Each line of standard output is {"value": ...} or {"error": ...}.
//
//     node driver.mjs HOME       HOME has the packages that package-lock.json pins, and gets the unpacked browser

import { createInterface } from "node:readline";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const home = process.argv[2];
const require = createRequire(join(home, "package.json"));
const load = (name) => import(pathToFileURL(require.resolve(name)));

// The package unpacks the browser, its libraries and fonts where temporary files are: there it is kept for the next run.
const unpacked = join(home, "unpacked");
mkdirSync(unpacked, { recursive: true });
process.env.TMPDIR = unpacked;
const { default: chromium, inflate, setupLambdaEnvironment } = await load("@sparticuz/chromium");
const executablePath = await chromium.executablePath();
if (!existsSync(join(unpacked, "al2023"))) {
  await inflate(join(home, "node_modules", "@sparticuz", "chromium", "bin", "al2023.tar.br"));
}
setupLambdaEnvironment(join(unpacked, "al2023", "lib"));
// the list of fonts that comes along names folders of Lambda's; a browser without any font ends
process.env.FONTCONFIG_FILE = join(unpacked, "fonts.conf");
writeFileSync(
  process.env.FONTCONFIG_FILE,
  `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig><dir>${join(unpacked, "fonts")}</dir>` +
    `<dir>/usr/share/fonts</dir><cachedir>${join(unpacked, "fonts-cache")}</cachedir></fontconfig>`,
);

const { chromium: playwright } = require("playwright-core");
const browser = await playwright.launch({
  executablePath,
  args: [
    ...["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--font-render-hinting=none"],
    ...["--disable-background-networking", "--disable-component-update", "--disable-sync"],
  ],
});
const axeSource = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
// what breaks a rule of WCAG 2.2 A or AA, or a good practice: its rule, and where
const axe = async (page) => {
  const found = await page.evaluate(async (source) => {
    if (!window.axe) (0, eval)(source);
    return await window.axe.run(document, { resultTypes: ["violations"] });
  }, axeSource);
  return found.violations.map((each) => `${each.id}: ${each.nodes.map((node) => node.html).join(" | ")}`);
};

let context, page;
const Body = Object.getPrototypeOf(async () => {}).constructor;
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
say({ value: browser.version() });
for await (const line of createInterface({ input: process.stdin })) {
  const { run, given, fresh } = JSON.parse(line);
  try {
    if (fresh) {
      await context?.close();
      context = await browser.newContext({ timezoneId: "UTC", locale: "en-GB", ...fresh });
      context.setDefaultTimeout(30_000);
      page = await context.newPage();
    }
    const value = run ? await new Body("page", "context", "axe", "given", run)(page, context, axe, given) : null;
    say({ value: value ?? null });
  } catch (error) {
    say({ error: String(error) });
  }
}
await browser.close();
