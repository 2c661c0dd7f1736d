// An NVTX tool: NVTX loads it from NVTX_INJECTION64_PATH, and it appends each event to the file $NVTX_LOG as
//   pid  thread  push  domain  category  color  registered|text  name
//   pid  thread  pop   domain
// with tabs between the fields. Any number of processes write to one file.
#include <fcntl.h>
#include <nvtx3/nvToolsExt.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <string>

namespace {

struct Domain {
  std::string name;
  std::map<std::uint32_t, std::string> categories;
};

/// Handles are addresses of elements.
struct Names {
  std::mutex mutex;
  std::deque<Domain> domains;
  std::deque<std::string> strings;
};
Names& names() {
  static Names all;
  return all;
}

/// One write per line: the lines of several processes do not mix.
void log_line(const std::string& text) {
  static const int file = [] {
    const char* path = std::getenv("NVTX_LOG");
    return path ? ::open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644) : -1;
  }();
  const std::string line =
      std::to_string(::getpid()) + '\t' + std::to_string(::syscall(SYS_gettid)) + '\t' + text + '\n';
  if (::write(file, line.data(), line.size()) < 0) std::abort();
}

Domain& domain_of(nvtxDomainHandle_t handle) { return *reinterpret_cast<Domain*>(handle); }

nvtxDomainHandle_t NVTX_API create_domain(const char* name) {
  const std::lock_guard lock(names().mutex);
  return reinterpret_cast<nvtxDomainHandle_t>(&names().domains.emplace_back(Domain{name, {}}));
}

void NVTX_API name_category(nvtxDomainHandle_t domain, std::uint32_t category, const char* name) {
  const std::lock_guard lock(names().mutex);
  domain_of(domain).categories[category] = name;
}

nvtxStringHandle_t NVTX_API register_string(nvtxDomainHandle_t, const char* text) {
  const std::lock_guard lock(names().mutex);
  return reinterpret_cast<nvtxStringHandle_t>(&names().strings.emplace_back(text));
}

int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  const std::lock_guard lock(names().mutex);
  const Domain& in = domain_of(domain);
  const auto category = in.categories.find(event->category);
  const bool registered = event->messageType == NVTX_MESSAGE_TYPE_REGISTERED;
  char color[16];
  std::snprintf(color, sizeof color, "%08x", event->color);
  log_line(
      "push\t" + in.name + '\t' + (category == in.categories.end() ? "?" : category->second) + '\t' + color +
      '\t' + (registered ? "registered" : "text") + '\t' +
      (registered ? *reinterpret_cast<const std::string*>(event->message.registered) : event->message.ascii));
  return 0;
}

int NVTX_API pop(nvtxDomainHandle_t domain) {
  log_line("pop\t" + domain_of(domain).name);
  return 0;
}

}  // namespace

extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size)) return 0;
  const auto set = [&](unsigned id, auto* function) {
    *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
  };
  if (size <= NVTX_CBID_CORE2_DomainCreateA) return 0;
  set(NVTX_CBID_CORE2_DomainCreateA, create_domain);
  set(NVTX_CBID_CORE2_DomainNameCategoryA, name_category);
  set(NVTX_CBID_CORE2_DomainRegisterStringA, register_string);
  set(NVTX_CBID_CORE2_DomainRangePushEx, push);
  set(NVTX_CBID_CORE2_DomainRangePop, pop);
  return 1;
}
