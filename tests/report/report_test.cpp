#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "harness/core/error.h"
#include "harness/llama/decode_report.h"
#include "harness/report/page.h"
#include "harness/report/summary.h"
#include "harness/results/csv.h"
#include "harness/results/sha256.h"
#include "harness/results/sweep_row.h"
#include "tests/files.h"
#include "variants/table.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;
using testing::text_of;
using Values = std::map<std::string, std::string>;

void append(CsvFile& csv, const std::vector<std::string>& columns, const Values& values) {
  std::vector<std::string> fields;
  for (const std::string& column : columns)
    fields.push_back(values.contains(column) ? values.at(column) : "");
  csv.append(fields);
}

constexpr const char* kNorm = "rms_norm[tokens=1,hidden=4096,dtype=bf16]";
constexpr const char* kLinear = "linear[tokens=1,in=4096,out=4096,bias=no,dtype=bf16]";

Values row(const std::string& run, const std::string& problem, const std::string& variant,
           const std::string& config, double us, const std::string& status = "ok") {
  const bool linear = problem == kLinear;
  return {{"schema", "1"},
          {"run_id", run},
          {"device", "NVIDIA H200"},
          {"op", problem.substr(0, problem.find('['))},
          {"problem", problem},
          {"dtype", "bf16"},
          {"variant", variant},
          {"config", config},
          {"status", status},
          {"time_us", status == "ok" ? fmt::format("{}", us) : ""},
          {"ci_low_us", fmt::format("{}", us * 0.99)},
          {"ci_high_us", fmt::format("{}", us * 1.01)},
          {"cache", "cold"},
          {"bytes", linear ? "33570816" : "24576"},
          {"flops", linear ? "33554432" : "16384"},
          {"floor_us", linear ? "7.17" : "0.00525"},
          {"pct_floor", fmt::format("{}", 100 * (linear ? 7.17 : 0.00525) / us)},
          {"sm_clock_mhz", "1980"},
          {"temperature_c", "40"},
          {"power_w", "300.5"},
          {"throttled", us > 20 ? "sw_power_cap" : "none"}};
}

/// One of the times of a finalist.
Values finalist(Values row, const std::string& cache) {
  row["cache"] = cache;
  row["detail"] = "finalist";
  return row;
}

/// A folder with two runs of two problems, peaks, wisdom, a decode run and a peer.
fs::path sample_results() {
  const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const fs::path folder = fs::path(::testing::TempDir()) / ("report_" + test);
  fs::remove_all(folder);
  CsvFile csv(folder / "sweep.csv", sweep_columns());
  const auto put = [&](const Values& values) { append(csv, sweep_columns(), values); };
  put(row("20260101T000000Z-1", kNorm, "vectorized", "block=64,vec=4", 2.5));
  put(row("20260102T000000Z-2", kNorm, "naive", "block=64", 24.051));
  put(row("20260102T000000Z-2", kNorm, "vectorized", "block=64,vec=4", 2.25));
  put(row("20260102T000000Z-2", kNorm, "vectorized", "block=128,vec=4", 1.71875));
  put(row("20260102T000000Z-2", kNorm, "vectorized", "block=128,vec=8", 1.625));
  put(row("20260102T000000Z-2", kNorm, "vectorized", "block=256,vec=8", 0.1, "wrong_result"));
  put(row("20260102T000000Z-2", kLinear, "gemv_bulk_copy", "warps=4,rows=2", 8.125));
  put(row("20260102T000000Z-2", kLinear, "cublaslt", "algo=0", 12.375));
  const auto finalists = [&](const std::string& problem, const std::string& variant,
                             const std::string& config, double cold, double hot, double isolated) {
    const std::string run = "20260102T000000Z-2";
    put(finalist(row(run, problem, variant, config, cold), "cold"));
    put(finalist(row(run, problem, variant, config, hot), "hot"));
    put(finalist(row(run, problem, variant, config, isolated), "isolated"));
  };
  finalists(kNorm, "vectorized", "block=128,vec=4", 1.6875, 0.875, 3.5);
  finalists(kNorm, "vectorized", "block=128,vec=8", 1.65625, 0.75, 3.75);
  finalists(kLinear, "gemv_bulk_copy", "warps=4,rows=2", 8.125, 4.5, 10);
  finalists(kLinear, "cublaslt", "algo=0", 12.25, 5.25, 14);
  put(row("20260102T000000Z-2", "argmax[batch=1,vocab=9,dtype=bf16]", "naive", "", 1, "crash"));
  CsvFile peers(folder / "torch_peers.csv", sweep_columns());
  append(peers, sweep_columns(),
         row("peers-1", "linear[tokens=1,in=4096,out=4096,dtype=bf16]", "torch_linear", "", 11.5));
  CsvFile decode(folder / "decode.csv", decode_columns());
  append(decode, decode_columns(),
         {{"run_id", "20260102T000000Z-3"},
          {"device", "NVIDIA H200"},
          {"model", "llama2-7b"},
          {"dtype", "bf16"},
          {"batch", "1"},
          {"context", "512"},
          {"plan_set", "tuned"},
          {"us_per_token", "3639.6"},
          {"sum_of_ops_us", "3306.2"},
          {"floor_us", "2894.0"}});
  append(decode, decode_columns(),
         {{"device", "NVIDIA H200"},
          {"model", "llama2-7b"},
          {"dtype", "bf16"},
          {"batch", "1"},
          {"context", "512"},
          {"plan_set", "tuned+kv=int8"},
          {"us_per_token", "3600.5"}});
  std::ofstream(folder / "device.json")
      << R"({"arch":"sm_90a","backend":"cuda","copy_gb_per_s":3975.5,"driver":"580","l2_bytes":62914560,
"launch_floor_us":0.5,"matrix_tflop_per_s":958.5,"memory_bytes":150109880320,"name":"NVIDIA H200",
"read_gb_per_s":4682.1,"registers_per_sm":65536,"shared_per_block":232448,"shared_per_sm":233472,"sms":132,
"threads_per_sm":2048,"toolkit":"13.0","vector_tflop_per_s":63.4})";
  Wisdom wisdom({"NVIDIA H200", "sm_90a", "580", "13.0", ""});
  wisdom.put({.problem = {"rms_norm", {{"tokens", 1}, {"hidden", 4096}}, DType::bf16},
              .variant = "vectorized",
              .config = {{"block", 128}, {"vec", 4}},
              .time_us = 1.6875,
              .run_id = "20260102T000000Z-2"});
  wisdom.save(folder / "wisdom.json");
  return folder;
}

TEST(Report, WinnersComeFromTheWisdomElseAreTheFastest) {
  const ResultsSet set = read_results({sample_results() / "sweep.csv"});
  EXPECT_EQ(set.devices.size(), 1u);
  EXPECT_EQ(set.peers.size(), 1u);
  EXPECT_TRUE(set.notes.empty());
  const auto winners = winners_of(set);
  ASSERT_EQ(winners.size(), 2u) << "argmax has no row that is ok";
  EXPECT_EQ(winners[0].config, "block=128,vec=4") << "tied with the fastest, and named by the wisdom";
  EXPECT_TRUE(winners[0].by_wisdom);
  EXPECT_EQ(winners[0].time_us, 1.6875) << "cold, as a finalist: neither hot nor isolated nor its first time";
  EXPECT_EQ(winners[0].naive_us, 24.051);
  EXPECT_TRUE(std::isnan(winners[0].vendor_us));
  EXPECT_EQ(winners[1].variant, "gemv_bulk_copy");
  EXPECT_FALSE(winners[1].by_wisdom);
  EXPECT_EQ(winners[1].time_us, 8.125);
  EXPECT_EQ(winners[1].vendor, "torch_linear") << "faster than cublaslt; it does not name the dim 'bias'";
  EXPECT_EQ(winners[1].vendor_us, 11.5);
}

TEST(Report, AProblemTimedOnlyHotIsShownHot) {
  const fs::path folder = sample_results();
  const std::string problem = "softmax[rows=1,dtype=bf16]", run = "20260103T000000Z-4";
  CsvFile csv(folder / "hot.csv", sweep_columns());
  Values first = row(run, problem, "naive", "", 2);
  first["cache"] = "hot";
  append(csv, sweep_columns(), first);
  append(csv, sweep_columns(), finalist(row(run, problem, "naive", "", 2.5), "hot"));
  append(csv, sweep_columns(), finalist(row(run, problem, "naive", "", 1.5), "isolated"));
  const auto winners = winners_of(read_results({folder / "hot.csv"}));
  ASSERT_EQ(winners.size(), 1u);
  EXPECT_EQ(winners[0].time_us, 2.5);
}

TEST(Report, AStepSumsItsWinnersTimesTheirLaunches) {
  const ResultsSet set = read_results({sample_results()});
  const auto steps = steps_of(ops(), set, winners_of(set));
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].us_per_token, 3639.6);
  const auto part = [&](const std::string& role) {
    for (const StepPart& p : steps[0].parts)
      if (p.role == role) return p;
    return StepPart{};
  };
  EXPECT_EQ(part("output projection").count, 32);
  EXPECT_EQ(part("output projection").us, 8.125);
  EXPECT_EQ(part("first norm").us, 1.6875);
  EXPECT_TRUE(std::isnan(part("qkv projection").us)) << "was not tuned";
}

TEST(Report, BadInputIsOneSentence) {
  EXPECT_THROW(read_results({"/no/such/results"}), InputError);
  const fs::path folder = fs::path(::testing::TempDir()) / "report_empty";
  fs::create_directories(folder);
  std::ofstream(folder / "other.csv") << "a,b\n1,2\n";
  EXPECT_THROW(read_results({folder}), InputError);
  const fs::path results = sample_results();
  Values other = row("20260103T000000Z-4", kNorm, "naive", "", 2);
  other["schema"] = "2";
  CsvFile csv(results / "other.csv", sweep_columns());
  append(csv, sweep_columns(), other);
  EXPECT_THROW(read_results({results}), InputError) << "not left out";
}

std::string without_breaks(std::string html) {
  for (std::size_t at = 0; (at = html.find("<wbr>", at)) != std::string::npos;) html.erase(at, 5);
  return html;
}

void expect_text(const std::string& html, const std::string& text) {
  EXPECT_NE(html.find(text), std::string::npos) << "no '" << text << "' in the page";
}

TEST(Report, ThePageIsCompleteAndNeedsNoNetwork) {
  const std::string html =
      without_breaks(report_page(ops(), read_results({sample_results()}), "A & B </script><b>"));
  expect_text(html, "<title>A &amp; B &lt;/script&gt;&lt;b&gt;</title>");
  for (const char* text : {kNorm, kLinear, "block=128,vec=4", "warps=4,rows=2", ">1.688</td>", ">8.125</td>",
                           "88.2 %", "14.25 ×", "1.42 ×", "\"us_per_token\":3639.6"})
    expect_text(html, text);
  EXPECT_EQ(html.find("{{"), std::string::npos) << "a mark of the template is left";
  for (const char* text : {"src=", "@import", "url(http", "fetch(", "XMLHttpRequest", "https:"})
    EXPECT_EQ(html.find(text), std::string::npos) << text;
  // The only address is the XML namespace of SVG.
  const std::size_t name = html.find("http:");
  EXPECT_EQ(html.substr(name, 26), "http://www.w3.org/2000/svg");
  EXPECT_EQ(html.find("http:", name + 1), std::string::npos);
  const auto open = html.find("id=\"data\">") + 10;
  const auto data = nlohmann::json::parse(html.substr(open, html.find("</script>", open) - open));
  EXPECT_EQ(data["rows"]["table"].size(), 21u);
  EXPECT_EQ(data["winners"]["table"].size(), 2u);
}

/// The browser's name; empty if there is none.
std::string browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"})
    if (std::system(fmt::format("command -v {} > /dev/null 2>&1", name).c_str()) == 0) return name;
  return "";
}

struct Rendered {
  std::string dom;
  std::vector<std::string> console;  // error messages of scripts
};

Rendered render(const fs::path& page, const std::string& flags = "") {
  const fs::path folder = page.parent_path();
  const std::string command = fmt::format(
      "timeout 120 {} --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir='{}' {} "
      "--virtual-time-budget=5000 --enable-logging=stderr --dump-dom 'file://{}' > '{}' 2> '{}'",
      browser(), (folder / "profile").string(), flags, page.string(), (folder / "dom.html").string(),
      (folder / "log.txt").string());
  EXPECT_EQ(std::system(command.c_str()), 0);
  Rendered rendered{.dom = text_of(folder / "dom.html")};
  std::istringstream log(text_of(folder / "log.txt"));
  for (std::string line; std::getline(log, line);)
    if (line.find("CONSOLE") != std::string::npos) rendered.console.push_back(line);
  return rendered;
}

TEST(Report, RendersInABrowserWithoutAnError) {
  if (browser().empty()) GTEST_SKIP() << "no chromium here";
  const fs::path folder = fs::path(::testing::TempDir()) / "report_page";
  fs::create_directories(folder);
  std::ofstream(folder / "broken.html") << "<p>x</p><script>nothing.at.all;</script>";
  ASSERT_EQ(render(folder / "broken.html").console.size(), 1u) << "this test would not see an error";

  std::ofstream(folder / "report.html") << report_page(ops(), read_results({sample_results()}), "Sample");
  const Rendered page = render(folder / "report.html");
  EXPECT_TRUE(page.console.empty()) << page.console.front();
  expect_text(page.dom, "data-drawn=\"yes\"");
  expect_text(page.dom, "9 configurations in 2 runs, 7 ok, 2 not; 2 problems with a winner.");
  const std::string shown = page.dom.substr(0, page.dom.find("id=\"data\""));
  for (const char* text :
       {"matrix units: 958.5 TFLOP/s",                      // the roofline
        "11.5 torch_linear", "24.05 naive",                 // bars
        "Best time over block and vec; the best is 1.625",  // heat map
        ">1.688</text>",                                    // a cell of it
        "20260102T000000Z-2: 4 timed, best 1.625",          // the search
        "2.5 → 1.656 µs", "-33.8 %",                        // runs
        "1 of 19 rows were throttled (sw_power_cap)", "One step took 3640 µs; its floor is 2894 µs.",
        "output projection: gemv_bulk_copy"})
    expect_text(shown, text);
}

TEST(Report, TheRooflineOfAHostHasNoPeak) {
  if (browser().empty()) GTEST_SKIP() << "no chromium here";
  const fs::path results = sample_results();
  std::string facts = text_of(results / "device.json");
  for (const char* rate : {"958.5", "63.4"}) facts.replace(facts.find(rate), std::strlen(rate), "0.0");
  std::ofstream(results / "device.json") << facts;
  const fs::path folder = fs::path(::testing::TempDir()) / "report_host";
  fs::create_directories(folder);
  std::ofstream(folder / "report.html") << report_page(ops(), read_results({results}), "Host");
  const Rendered page = render(folder / "report.html");
  EXPECT_TRUE(page.console.empty()) << page.console.front();
  expect_text(page.dom, "data-drawn=\"yes\"");
  expect_text(page.dom, "reads: 4682 GB/s");
}

/// What a script says that uses a page as a reader does: it gets the document `d` and its window `w`.
std::string used(const fs::path& folder, const std::string& html, const std::string& script) {
  std::ofstream(folder / "page.html") << html;
  std::ofstream(folder / "reader.html")
      << "<!DOCTYPE html><iframe src='page.html' width='1200' height='900'></iframe><pre "
         "id='said'></pre><script>\n"
         "const frame = document.querySelector('iframe'), said = document.getElementById('said');\n"
         "frame.addEventListener('load', () => {\n"
         "const d = frame.contentDocument, w = frame.contentWindow;\n"
         "const say = text => said.append(text + '\\n');\n"
         "const rows = () => [...d.querySelectorAll('#winner-table tbody tr:not(.detail)')].filter(r => "
         "!r.hidden);\n"
         "const enter = (id, value, event) => { d.getElementById(id).value = value;\n"
         "  d.getElementById(id).dispatchEvent(new w.Event(event)); };\n"
         "const column = i => say(rows().map(r => r.cells[i].textContent).join(' '));\n"
      << script << "\nsay('end'); });</script>";
  const Rendered page = render(folder / "reader.html", "--allow-file-access-from-files");
  EXPECT_TRUE(page.console.empty()) << page.console.front();
  const auto begin = page.dom.find("id=\"said\">") + 10;
  const std::string text = page.dom.substr(begin, page.dom.find("</pre>", begin) - begin);
  EXPECT_TRUE(text.ends_with("end\n")) << text;
  return text;
}

/// Four runs of the winner of kNorm, the last one slower, and four of a step.
void add_nights(ResultsSet& set) {
  for (int night = 1; night <= 4; ++night) {
    HistoryRun run{
        .file = {.run_id = fmt::format("2026010{}T000000Z-1", night), .commit = "c0ffee", .driver = "580"}};
    for (const char* problem : {kNorm, "step[model=llama2-7b,batch=1,context=512,dtype=bf16]"}) {
      TimedConfig row{.device = "NVIDIA H200",
                      .op = std::string(problem).substr(0, std::string(problem).find('[')),
                      .problem = problem,
                      .variant = "vectorized",
                      .config = "block=128,vec=4",
                      .sampling = SamplingClass::rerun};
      row.runs = {{.run_id = run.file.run_id, .time_us = night == 4 ? 1.8 : 1.7}};
      run.configs.push_back(row);
    }
    set.history.push_back(run);
  }
  for (const TimedConfig& row : set.history.back().configs)
    set.changes.rows.push_back({.now = row,
                                .change = Change::slower,
                                .effect = 0.0588,
                                .since = "20260104T000000Z-1",
                                .commit = "c0ffee",
                                .cause = "code"});
}

TEST(Report, IsSearchedSortedAndOpenedInABrowser) {
  if (browser().empty()) GTEST_SKIP() << "no chromium here";
  const fs::path folder = fs::path(::testing::TempDir()) / "report_used";
  fs::create_directories(folder);
  ResultsSet set = read_results({sample_results()});
  add_nights(set);
  const std::string html = report_page(ops(), set, "Sample");
  EXPECT_EQ(used(folder, html,
                 "enter('find', 'RMS_norm tokens=1,', 'input'); say(rows().length + ': ' + "
                 "d.getElementById('found').textContent); enter('find', 'no such row', 'input'); "
                 "say(rows().length); enter('find', '', 'input'); say(rows().length);"),
            "1: 1 of 2 rows\n0\n2\nend\n");
  EXPECT_EQ(used(folder, html,
                 "const heads = d.querySelectorAll('#winner-table th button');"
                 "heads[3].click(); column(3); heads[3].click(); column(3); heads[1].click(); column(0);"),
            "1.688 8.125\n8.125 1.688\n2 1\nend\n");
  EXPECT_EQ(used(folder, html,
                 "enter('only-op', 'linear', 'change'); column(0); enter('only-op', '', 'change');"
                 "enter('only-verdict', 'slower', 'change'); column(0); enter('only-verdict', 'new', "
                 "'change'); column(0);"),
            "2\n1\n2\nend\n");
  const std::string opened =
      used(folder, html,
           "rows()[0].click(); const detail = d.querySelector('.detail'); say(detail.textContent);"
           "say(detail.querySelectorAll('svg.spark circle').length + ' points, ' + "
           "d.querySelectorAll('#winner-table button[aria-expanded=true]').length + ' open');"
           "rows()[0].click(); say(d.querySelectorAll('.detail').length);"
           "rows()[1].querySelector('button').click(); say(d.querySelectorAll('.detail').length);"
           "enter('find', 'x', 'input'); say(d.querySelectorAll('.detail').length);");
  for (const char* text :
       {"SLOWER: +5.88 % since 20260104T000000Z-1, commit c0ffee: code", "4 points, 1 open\n0\n1\n0\n",
        "4 runs, from 20260101T000000Z-1 to 20260104T000000Z-1.", "block=128,vec=8",
        R"(--problem '^rms_norm\[tokens=1,hidden=4096,dtype=bf16\]$')"})
    expect_text(opened, text);
  // The keyboard: "/" searches, Escape clears, and the buttons of rows and headings have the focus in order.
  EXPECT_EQ(
      used(folder, html,
           "const key = (at, k) => at.dispatchEvent(new w.KeyboardEvent('keydown', {key: k, bubbles: true}));"
           "key(d.body, '/'); say(d.activeElement.id); enter('find', 'linear', 'input'); "
           "key(d.activeElement, 'Escape'); say(rows().length);"
           "say([...d.querySelectorAll('#winner-table button')].every(b => b.tabIndex === 0));"),
      "find\n2\ntrue\nend\n");
  // The overview leads to a row, and the step of the history has its trend.
  const std::string overview =
      used(folder, html,
           "say(d.getElementById('overview').textContent); d.querySelector('#overview a').click();"
           "say(d.querySelectorAll('.detail').length); say(d.getElementById('trends').textContent);");
  for (const char* text :
       {"Newest run2026-01-02 00:00", "Against naive, 1 problems14.25 ×", "Farthest from the floor",
        "1.7 → 1.8 µs+5.9 %slower", "\n1\n", "step[model=llama2-7b,batch=1,context=512,dtype=bf16]"})
    expect_text(overview, text);
}

/// The page of 10,000 rows, `configs` of each problem.
std::string large_page(const fs::path& folder, int configs) {
  fs::remove_all(folder);
  std::vector<CsvRow> rows;
  for (int i = 0; i < 10000; ++i) {
    Values values =
        row("20260102T000000Z-2", fmt::format("rms_norm[tokens={},hidden=4096,dtype=bf16]", i / configs + 1),
            "vectorized", fmt::format("block={},vec=4", 32 * (i % configs + 1)), 2 + 0.001 * (i % 997));
    for (const std::string& column : sweep_columns()) values.try_emplace(column);
    rows.push_back(std::move(values));
  }
  write_csv(folder / "sweep.csv", sweep_columns(), rows);
  return report_page(ops(), read_results({folder}), "Large");
}

TEST(Report, ThousandsOfRowsAreASmallPage) {
  const fs::path folder = fs::path(::testing::TempDir()) / "report_large";
  EXPECT_LT(large_page(folder, 1).size(), 5u << 20);  // each is a winner
  const std::string html = large_page(folder, 10);
  EXPECT_LT(html.size(), 2u << 20);
  if (browser().empty()) GTEST_SKIP() << "no chromium here";
  EXPECT_EQ(
      used(folder, html, "enter('find', 'tokens=77,', 'input'); say(d.getElementById('found').textContent);"),
      "1 of 1000 rows\nend\n");
}

TEST(Report, PrintHasTheFirstRowsOfALongTable) {
  if (browser().empty()) GTEST_SKIP() << "no chromium here";
  const fs::path folder = fs::path(::testing::TempDir()) / "report_print";
  const std::string printed =
      "const print = () => { w.dispatchEvent(new w.Event('beforeprint'));"
      "  say(rows().filter(r => !r.classList.contains('unprinted')).length + ' ' +"
      "      d.getElementById('printed').textContent); w.dispatchEvent(new w.Event('afterprint')); };"
      "print(); enter('find', 'tokens=77,', 'input'); print(); say(d.querySelectorAll('.unprinted').length);";
  EXPECT_EQ(used(folder, large_page(folder, 8), printed),
            "1000 The first 1000 of 1250 rows; search and filters choose others.\n1 \n0\nend\n");
}

TEST(Report, ARowOfTheTableIsALineOrTwoInPrint) {
  if (browser().empty()) GTEST_SKIP() << "no chromium here";
  const fs::path folder = fs::path(::testing::TempDir()) / "report_pdf";
  const std::string html = large_page(folder, 40);  // 250 winners, about 40 on a page
  std::ofstream(folder / "report.html") << html;
  render(folder / "report.html",
         fmt::format("--no-pdf-header-footer --print-to-pdf='{}'", (folder / "report.pdf").string()));
  const std::string pdf = text_of(folder / "report.pdf");
  ASSERT_TRUE(pdf.starts_with("%PDF")) << pdf.substr(0, 20);
  static const std::regex page_object("/Type /Page\\b");
  const auto pages = std::distance(std::sregex_iterator(pdf.begin(), pdf.end(), page_object), {});
  EXPECT_GT(pages, 5);
  EXPECT_LT(pages, 25);
}

/// Texts that become script, markup, a mark of the template or an attribute where a page is careless.
const std::vector<std::string>& hostile_texts() {
  static const std::string ran = "document.documentElement.dataset.ran=1";
  static const std::vector<std::string> texts = {
      "{{data}}",
      "{{winners}}{{notes}}{{title}}{{policy}}",
      "x onpointerover=" + ran + " style=position:fixed;inset:0 y ",
      "<script>" + ran + "</script>",
      "</script><script>" + ran + "</script>",
      "<!--<script>",
      "\"><img src=x onerror=" + ran + ">",
      "'><svg onload=" + ran + ">",
      "\" onfocus=\"" + ran + "\" autofocus=\"",
      "</title></style></textarea><script>" + ran + "</script>",
      "javascript:" + ran,
      "__proto__",
      "\xff\xfe<b>\xc0",
  };
  return texts;
}

/// Whether a page, rendered, has an attribute that runs script. Texts in the dump of a DOM have no "<".
bool has_event_attribute(std::string dom) {
  dom = std::regex_replace(dom, std::regex("=\"[^\"]*\""), "=\"\"");
  return std::regex_search(dom, std::regex("<[a-zA-Z][^<>]*\\son\\w+="));
}

/// sample_results() with one hostile text in a column of every row.
std::string hostile_page(const std::string& column, const std::string& text) {
  const fs::path folder = sample_results();
  std::vector<CsvRow> rows = read_csv(folder / "sweep.csv");
  for (CsvRow& row : rows) row[column] = text;
  write_csv(folder / "sweep.csv", sweep_columns(), rows);
  return report_page(ops(), read_results({folder}), text);
}

TEST(Report, AMarkOfTheTemplateInAFileStaysText) {
  for (const char* column : {"device", "problem", "variant", "config", "run_id", "throttled"}) {
    const std::string html = hostile_page(column, "{{data}}");
    std::size_t blocks = 0;
    for (std::size_t at = 0; (at = html.find("{\"devices\":", at)) != std::string::npos; ++at) ++blocks;
    EXPECT_EQ(blocks, 1u) << column << " is filled in a second time";
  }
  expect_text(hostile_page("throttled", "x onclick=f() y"), "(throttled: x onclick=f() y)");
  expect_text(hostile_page("variant", "a'b\"c<d>&"), "<td>a&#39;b&quot;c&lt;d&gt;&amp; <code>");
}

TEST(Report, ItsPolicyAllowsItsOwnScriptAndStyleOnly) {
  const std::string html = report_page(ops(), read_results({sample_results()}), "Sample");
  const auto between = [&](const std::string& open, const std::string& close) {
    const auto begin = html.find(open) + open.size();
    return html.substr(begin, html.find(close, begin) - begin);
  };
  EXPECT_EQ(between("Policy\" content=\"", "\""),
            "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; script-src 'sha256-" +
                sha256_base64(between("<script>", "</script>")) + "'; style-src 'sha256-" +
                sha256_base64(between("<style>", "</style>")) + "'");
  EXPECT_EQ(sha256_base64(""), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
  EXPECT_EQ(html.find(" style="), std::string::npos) << "the policy forbids it";
}

TEST(Report, NoTextOfAFileRunsInABrowser) {
  if (browser().empty()) GTEST_SKIP() << "no chromium here";
  const fs::path folder = fs::path(::testing::TempDir()) / "report_hostile";
  fs::create_directories(folder);
  const auto dom_of = [&](const std::string& html) {
    std::ofstream(folder / "page.html") << html;
    return render(folder / "page.html");
  };
  const std::string careless = dom_of("<p>" + hostile_texts()[3] + "<b onclick=f()>x</b></p>").dom;
  ASSERT_NE(careless.find("data-ran=\"1\""), std::string::npos) << "this test would not see a script run";
  ASSERT_TRUE(has_event_attribute(careless));

  const auto expect_quiet = [&](const std::string& html, const std::string& what) {
    const Rendered page = dom_of(html);
    EXPECT_EQ(page.dom.find("data-ran=\""), std::string::npos) << what;
    EXPECT_FALSE(has_event_attribute(page.dom)) << what;
    EXPECT_TRUE(page.console.empty()) << what << ": " << page.console.front();
    EXPECT_NE(page.dom.find("data-drawn=\"yes\""), std::string::npos) << what << ": its own script ran";
  };
  expect_quiet(report_page(ops(), read_results({TEST_DATA "/report_marks.csv"}), "marks"),
               "report_marks.csv");
  // A text in each column at once, and each text in each column in turn of the rows.
  std::vector<CsvRow> rows = read_csv(sample_results() / "sweep.csv");
  std::size_t next = 0;
  for (std::size_t round = 0; round < hostile_texts().size(); round += 4) {
    const fs::path results = sample_results();
    for (CsvRow& row : rows)
      for (const char* column : {"run_id", "device", "problem", "variant", "config", "throttled", "detail"})
        if (next++ % 3 != 0 || std::string(column) != "problem")
          row[column] = hostile_texts()[(next + round) % hostile_texts().size()];
    write_csv(results / "sweep.csv", sweep_columns(), rows);
    for (const char* file : {"device.json", "wisdom.json"})
      std::ofstream(results / file) << "{\"</ul><script>";
    expect_quiet(report_page(ops(), read_results({results}), hostile_texts()[round]),
                 fmt::format("round {}", round));
  }

  // The texts of a history, in a plot, in an opened row and in the index of a site.
  for (const std::string& text : hostile_texts()) {
    ResultsSet set = read_results({sample_results()});
    add_nights(set);
    for (HistoryRun& run : set.history) {
      run.file.run_id += text;
      run.file.commit = run.file.driver = text;
      run.configs[1].problem = run.configs[1].variant = text;
    }
    for (RowChange& change : set.changes.rows) change.since = change.commit = change.cause = text;
    const std::string html = report_page(ops(), set, text);
    if (&text == &hostile_texts()[3])
      used(folder, html, "rows()[0].click(); if (d.documentElement.dataset.ran) throw 'a text ran';");
    expect_quiet(html, "history with " + text);
  }

  // Were a text to become markup, the policy would still keep it from running.
  std::string broken = report_page(ops(), read_results({sample_results()}), "Sample");
  broken.insert(broken.find("<main>"),
                "<script>" + std::string("document.documentElement.dataset.ran=1") +
                    "</script><img src=x onerror=document.documentElement.dataset.ran=1>");
  EXPECT_EQ(dom_of(broken).dom.find("data-ran=\"1\""), std::string::npos);
}

}  // namespace
}  // namespace warptune
